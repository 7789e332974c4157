//! One direction of a connection: a queue in the writer, and a buffer in the kernel that takes a bounded number of bytes.

use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Pipe<T> {
    /// The frames that are not read, with the position of their last byte.
    frames: VecDeque<(u64, T)>,
    queued: u64,
    written: u64,
    read: u64,
    capacity: u64,
}

impl<T> Pipe<T> {
    pub(crate) fn new(capacity: u64) -> Self {
        Pipe { frames: VecDeque::new(), queued: 0, written: 0, read: 0, capacity }
    }

    /// Queues a frame. Returns the position of its last byte.
    pub(crate) fn queue(&mut self, frame: T, size: u64) -> u64 {
        self.queued += size;
        self.frames.push_back((self.queued, frame));
        self.queued
    }

    /// The kernel takes what it has a place for. Returns whether it took anything.
    pub(crate) fn flush(&mut self) -> bool {
        let taken = self.queued.min(self.read + self.capacity);
        let grew = taken > self.written;
        self.written = self.written.max(taken);
        grew
    }

    /// The reader takes at most so many bytes. Returns the frames that are whole now.
    pub(crate) fn read(&mut self, limit: u64, whole: &mut Vec<T>) {
        self.read = self.written.min(self.read.saturating_add(limit));
        while self.frames.front().is_some_and(|(end, _)| *end <= self.read) {
            whole.extend(self.frames.pop_front().map(|(_, frame)| frame));
        }
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Bytes that the kernel has no place for.
    pub(crate) fn backlog(&self) -> u64 {
        self.queued - self.written
    }

    /// Whether the reader finds something.
    pub(crate) fn is_readable(&self) -> bool {
        self.read < self.written
    }

    /// The writer is gone: what the kernel has not taken is lost.
    pub(crate) fn end(&mut self) {
        self.queued = self.written;
        while self.frames.back().is_some_and(|(end, _)| *end > self.written) {
            self.frames.pop_back();
        }
    }

    /// The reader is gone.
    pub(crate) fn discard(&mut self) {
        self.frames.clear();
        self.read = self.written;
        self.queued = self.written;
    }
}
