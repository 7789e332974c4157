//! How Linux names its file systems: by a number, and in the list of mounts.
//!
//! Pure: it is given what the kernel said. So it is tested on every platform, and used on one.
#![cfg(any(target_os = "linux", target_os = "android", test))]

use super::{FileSystem, Kind};

/// File systems of the network, of a cluster or of a virtual machine's host, by the number that statfs(2) gives (linux/magic.h and the
/// file systems' own sources).
const NETWORK: [(u32, &str); 24] = [
    (0x0000_6969, "nfs"),
    (0x0000_517B, "smb"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x0102_1997, "9p"),
    (0x5346_414F, "afs"),
    (0x6B41_4653, "kafs"),
    (0x00C3_6400, "ceph"),
    (0x0BD0_0BD0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x0116_1970, "gfs2"),
    (0x7461_636F, "ocfs2"),
    (0x7375_7245, "coda"),
    (0x0000_564C, "ncp"),
    (0x1983_0326, "beegfs"),
    (0xAAD7_AAEA, "panfs"),
    (0x2003_0528, "orangefs"),
    (0x1803_1977, "wekafs"),
    (0x6163_6673, "acfs"),
    (0xBEEF_DEAD, "snfs"),
    (0x0131_11A8, "ibrix"),
    (0x786F_4256, "vboxsf"),
    (0xBACB_ACBC, "vmhgfs"),
    (0x7C7C_6673, "prl_fs"),
];

/// Some of the local ones, so that messages can name them.
const LOCAL: [(u32, &str); 10] = [
    (0x0000_EF53, "ext4"),
    (0x0102_1994, "tmpfs"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0x794C_7630, "overlayfs"),
    (0x2FC1_2FC1, "zfs"),
    (0xF2F5_2010, "f2fs"),
    (0x8584_58F6, "ramfs"),
    (0x7366_746E, "ntfs3"),
    (0xCA45_1A4E, "bcachefs"),
];

/// The number of every file system that a program serves, and of virtiofs.
pub(super) const FUSE: u32 = 0x6573_5546;

/// Programs that keep their files on another machine, by how their names begin.
const NETWORK_PROGRAMS: [&str; 40] = [
    "sshfs",
    "glusterfs",
    "s3fs",
    "s3ql",
    "s3backer",
    "rclone",
    "davfs",
    "webdavfs",
    "gcsfuse",
    "juicefs",
    "ceph",
    "curlftpfs",
    "ftpfs",
    "goofys",
    "geesefs",
    "tigrisfs",
    "mount-s3",
    "mountpoint-s3",
    "blobfuse",
    "seaweedfs",
    "moosefs",
    "mfsmount",
    "lizardfs",
    "saunafs",
    "cvmfs",
    "afs",
    "nfs",
    "fuse-nfs",
    "smbnetfs",
    "gvfsd",
    "google-drive",
    "onedrive",
    "dropbox",
    "hdfs",
    "fuse_dfs",
    "xtreemfs",
    "vmhgfs",
    "grpcfuse",
    "osxfs",
    "virtiofs",
];

/// The kind of a file system, from its number, and for one in user space from the line of its device in `/proc/self/mountinfo`.
///
/// All mounts of one device are of one type, so that any of its lines will do. One that is not listed (it may be mounted in another
/// namespace) counts as local: its locks are tried, and processes of this host are all that is promised.
pub(super) fn classify(magic: u32, mountinfo: &str, (major, minor): (u32, u32)) -> FileSystem {
    if let Some((_, name)) = NETWORK.iter().find(|(number, _)| *number == magic) {
        return FileSystem { name: (*name).to_owned(), kind: Kind::Network };
    }
    if magic != FUSE {
        let known = LOCAL.iter().find(|(number, _)| *number == magic);
        let name = known.map_or_else(|| format!("file system {magic:#x}"), |(_, name)| (*name).to_owned());
        return FileSystem { name, kind: Kind::Local };
    }
    let device = format!("{major}:{minor}");
    match mountinfo.lines().filter_map(Mount::parse).find(|mount| mount.device == device) {
        Some(mount) => {
            let kind = if mount.is_remote() { Kind::Network } else { Kind::UserSpace };
            FileSystem { name: mount.kind.to_owned(), kind }
        }
        None => FileSystem { name: "fuse, of an unknown kind".to_owned(), kind: Kind::UserSpace },
    }
}

/// A line of `/proc/self/mountinfo`: id, parent, major:minor, root, mount point, options, optional fields, `-`, type, source, options.
struct Mount<'a> {
    device: &'a str,
    kind: &'a str,
    source: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut fields = file_system.split(' ');
        Some(Mount {
            device: mount.split(' ').nth(2)?,
            kind: fields.next()?,
            source: fields.next().unwrap_or_default(),
        })
    }

    fn is_remote(&self) -> bool {
        let program = self.kind.strip_prefix("fuse.").unwrap_or(self.kind);
        // Older programs say only "fuse", and name themselves in the source: `sshfs#host:/path`, `ceph-fuse`.
        let names = [program, self.source.split(['#', ':']).next().unwrap_or_default()];
        let is_known = names.iter().any(|name| {
            let name = name.to_ascii_lowercase();
            NETWORK_PROGRAMS.iter().any(|known| name.starts_with(known))
        });
        is_known || self.source.contains("://") || names_a_host(self.source)
    }
}

/// `host:/path` or `user@host:path`. A list of local folders, as mergerfs has it, begins with a slash.
fn names_a_host(source: &str) -> bool {
    source.split_once(':').is_some_and(|(host, path)| {
        !host.is_empty() && !host.contains('/') && (path.starts_with('/') || host.contains('@'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = r"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
90 22 0:55 / /mnt/far rw,nosuid - fuse.sshfs me@far:/ rw,user_id=0
91 22 0:56 / /mnt/usb rw shared:7 master:2 - fuseblk /dev/sdb1 rw
92 22 0:57 / /mnt/host rw - virtiofs myfs rw
93 22 0:58 / /mnt/merged rw - fuse.fuse-overlayfs fuse-overlayfs rw
94 22 0:59 / /mnt/bucket rw - fuse.rclone remote: rw
95 22 0:60 / /mnt/a\040-\040b rw - fuse sshfs#me@far:/ rw
96 22 0:61 / /mnt/pool rw - fuse.mergerfs /disk/a:/disk/b rw
97 22 0:62 / /mnt/web rw - fuse https://example.org/dav rw
98 22 0:63 / /mnt/own rw - fuse.someones-own far.example.org:/vol rw
99 22 0:64 / /mnt/bound rw - fuse /srv/real rw
100 22 0:65 / /mnt/juice rw - fuse.juicefs JuiceFS:vol rw
101 22 0:66 / /mnt/gluster rw - fuse.glusterfs far:/vol rw
102 22 0:67 / /mnt/c rw - fuse ceph-fuse rw
103 22 0:68 / /mnt/enc rw - fuse.gocryptfs /home/me/cipher rw
a line of nonsense - x";

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        for (magic, name) in NETWORK {
            assert_eq!(classify(magic, "", (0, 1)), FileSystem { name: name.to_owned(), kind: Kind::Network });
        }
    }

    #[test]
    fn a_number_that_is_not_listed_is_local_and_is_shown() {
        assert_eq!(classify(0xEF53, "", (0, 1)), FileSystem { name: "ext4".to_owned(), kind: Kind::Local });
        assert_eq!(
            classify(0x1234, "", (0, 1)),
            FileSystem { name: "file system 0x1234".to_owned(), kind: Kind::Local }
        );
    }

    #[test]
    fn a_file_system_in_user_space_is_told_by_its_mount() {
        for (minor, name, kind) in [
            (55, "fuse.sshfs", Kind::Network),
            (56, "fuseblk", Kind::UserSpace),
            (57, "virtiofs", Kind::Network),
            (58, "fuse.fuse-overlayfs", Kind::UserSpace),
            (59, "fuse.rclone", Kind::Network),
            (60, "fuse", Kind::Network),
            (61, "fuse.mergerfs", Kind::UserSpace),
            (62, "fuse", Kind::Network),
            (63, "fuse.someones-own", Kind::Network),
            (64, "fuse", Kind::UserSpace),
            (65, "fuse.juicefs", Kind::Network),
            (66, "fuse.glusterfs", Kind::Network),
            (67, "fuse", Kind::Network),
            (68, "fuse.gocryptfs", Kind::UserSpace),
        ] {
            assert_eq!(classify(FUSE, MOUNTS, (0, minor)), FileSystem { name: name.to_owned(), kind }, "0:{minor}");
        }
    }

    #[test]
    fn a_mount_that_is_not_listed_is_left_to_the_trial_of_its_locks() {
        for mounts in ["", MOUNTS, "nonsense", " - ", "1 2 9:9"] {
            assert_eq!(classify(FUSE, mounts, (9, 9)).kind, Kind::UserSpace, "{mounts:?}");
        }
    }

    #[test]
    fn the_list_of_mounts_matters_for_user_space_only() {
        // A local disk whose number another line has, too, by whatever mistake.
        assert_eq!(classify(0xEF53, MOUNTS, (0, 55)).kind, Kind::Local);
    }
}
