//! Whose a process is, and who may use a pipe.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;

use windows_sys::Win32::Foundation::{HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{
    GetTokenInformation, PSECURITY_DESCRIPTOR, SECURITY_ATTRIBUTES, TOKEN_QUERY, TOKEN_USER, TokenUser,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, OpenProcess, OpenProcessToken, PROCESS_QUERY_LIMITED_INFORMATION,
};
use windows_sys::core::BOOL;

/// The system itself, which may do everything anyway.
const LOCAL_SYSTEM: &str = "S-1-5-18";

/// Whether the process belongs to the user of this one, or to the system.
pub(crate) fn is_trusted(pid: u32) -> io::Result<bool> {
    // SAFETY: the call takes plain numbers.
    let process = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
    if process.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has opened it for us, and nobody else closes it.
    let process = unsafe { OwnedHandle::from_raw_handle(process) };
    let user = user_of(process.as_raw_handle())?;
    Ok(user == LOCAL_SYSTEM || user == our_user()?)
}

fn our_user() -> io::Result<String> {
    // SAFETY: the call has no conditions; what it gives need not be closed.
    user_of(unsafe { GetCurrentProcess() })
}

/// The security identifier of the process's user, as text.
fn user_of(process: HANDLE) -> io::Result<String> {
    let mut token = ptr::null_mut();
    // SAFETY: the handle is open, and `token` is writable.
    succeeded(unsafe { OpenProcessToken(process, TOKEN_QUERY, &raw mut token) })?;
    // SAFETY: the call has opened it for us, and nobody else closes it.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    // A user's identifier has 68 bytes at most and lies behind the structure. Words, so that the structure is aligned.
    let mut buffer = [0_u64; 32];
    let (length, mut needed) = (u32::try_from(size_of_val(&buffer)).unwrap_or(0), 0);
    let target = buffer.as_mut_ptr().cast();
    // SAFETY: the handle is open, and the buffer has as many bytes as is said.
    succeeded(unsafe { GetTokenInformation(token.as_raw_handle(), TokenUser, target, length, &raw mut needed) })?;
    // SAFETY: the call has filled the buffer, which is aligned and long enough, with this structure.
    let user = unsafe { buffer.as_ptr().cast::<TOKEN_USER>().read() };
    let mut text = ptr::null_mut();
    // SAFETY: the identifier lies in the buffer, which is still there, and `text` is writable.
    succeeded(unsafe { ConvertSidToStringSidW(user.User.Sid, &raw mut text) })?;
    let text = Local(text.cast());
    Ok(text.read())
}

fn succeeded(result: BOOL) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Memory that the system has allocated for us.
#[derive(Debug)]
struct Local(*mut core::ffi::c_void);

impl Local {
    /// As text that ends with a zero.
    fn read(&self) -> String {
        let mut units = Vec::new();
        let mut next = self.0.cast::<u16>().cast_const();
        loop {
            // SAFETY: the text goes on up to its zero, which was not reached.
            let unit = unsafe { next.read() };
            if unit == 0 {
                return String::from_utf16_lossy(&units);
            }
            units.push(unit);
            // SAFETY: behind a unit that is not zero there is another one.
            next = unsafe { next.add(1) };
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // SAFETY: the system has allocated it for us with the function that this one belongs to, and it is freed once.
        unsafe { LocalFree(self.0) };
    }
}

/// Who may use a pipe: this user and the system.
#[derive(Debug)]
pub(crate) struct Rights {
    descriptor: Local,
}

// SAFETY: it is memory that nobody writes to after it was made, and that may be freed by any thread.
unsafe impl Send for Rights {}

impl Rights {
    pub(crate) fn of_this_user() -> io::Result<Rights> {
        // Not inherited; all access for the two, and so none for others.
        let text = format!("D:P(A;;GA;;;{LOCAL_SYSTEM})(A;;GA;;;{})", our_user()?);
        let text: Vec<u16> = text.encode_utf16().chain([0]).collect();
        let mut descriptor: PSECURITY_DESCRIPTOR = ptr::null_mut();
        let made = {
            let target = &raw mut descriptor;
            // SAFETY: the text ends with a zero, `descriptor` is writable, and its size is not asked for.
            unsafe {
                ConvertStringSecurityDescriptorToSecurityDescriptorW(
                    text.as_ptr(),
                    SDDL_REVISION_1,
                    target,
                    ptr::null_mut(),
                )
            }
        };
        succeeded(made)?;
        Ok(Rights { descriptor: Local(descriptor) })
    }

    /// Valid as long as this value lives.
    pub(crate) fn attributes(&self) -> SECURITY_ATTRIBUTES {
        let length = u32::try_from(size_of::<SECURITY_ATTRIBUTES>()).unwrap_or(0);
        SECURITY_ATTRIBUTES { nLength: length, lpSecurityDescriptor: self.descriptor.0, bInheritHandle: 0 }
    }
}
