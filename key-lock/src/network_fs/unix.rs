use super::FileSystem;
use std::fs::File;
use std::io;
use std::path::Path;

/// The file systems of the network, by the number that `statfs` gives (linux/magic.h and the file systems' own headers).
#[cfg(any(target_os = "linux", target_os = "android", test))]
const NETWORK: [(u32, &str); 17] = [
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
    (0x786F_4256, "vboxsf"),
];

#[cfg(any(target_os = "linux", target_os = "android", test))]
const FUSE: u32 = 0x6573_5546;

/// Kinds of FUSE that keep their files on another machine, by what the type's name begins with after `fuse.`.
#[cfg(any(target_os = "linux", target_os = "android", test))]
const NETWORK_FUSE: [&str; 24] = [
    "sshfs",
    "glusterfs",
    "s3fs",
    "rclone",
    "davfs",
    "gcsfuse",
    "juicefs",
    "ceph",
    "curlftpfs",
    "goofys",
    "mount-s3",
    "blobfuse",
    "seaweedfs",
    "moosefs",
    "mfs",
    "lizardfs",
    "cvmfs",
    "afs",
    "nfs",
    "smb",
    "gvfs",
    "google-drive",
    "onedrive",
    "dropbox",
];

/// Looks at the file system of an open directory.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn inspect(directory: &File, _path: &Path) -> io::Result<FileSystem> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the kernel's numbers have 32 bits")]
    let magic = rustix::fs::fstatfs(directory)?.f_type as u32;
    let device = rustix::fs::fstat(directory)?.st_dev;
    let mounts = if magic == FUSE { std::fs::read_to_string("/proc/self/mountinfo")? } else { String::new() };
    Ok(classify(magic, &mounts, rustix::fs::major(device), rustix::fs::minor(device)))
}

/// The kind of file system: by its number, and for FUSE by the mount's type.
#[cfg(any(target_os = "linux", target_os = "android", test))]
fn classify(magic: u32, mountinfo: &str, major: u32, minor: u32) -> FileSystem {
    if let Some((_, name)) = NETWORK.iter().find(|(number, _)| *number == magic) {
        return FileSystem { name: (*name).to_owned(), network: true };
    }
    if magic != FUSE {
        return FileSystem { name: format!("type {magic:#x}"), network: false };
    }
    // A line: id, parent, major:minor, root, mount point, options, optional fields, "-", type, source, options.
    let device = format!("{major}:{minor}");
    let kind = mountinfo.lines().rev().find_map(|line| {
        let (mount, rest) = line.split_once(" - ")?;
        (mount.split(' ').nth(2)? == device).then(|| rest.split(' ').next()).flatten()
    });
    let name = kind.unwrap_or("fuse of an unknown kind").to_owned();
    let fuse = name.strip_prefix("fuse.").unwrap_or(&name);
    let network = fuse == "virtiofs" || NETWORK_FUSE.iter().any(|network| fuse.starts_with(network));
    FileSystem { name, network }
}

/// Looks at the file system of an open directory.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn inspect(directory: &File, _path: &Path) -> io::Result<FileSystem> {
    /// `MNT_LOCAL` of sys/mount.h, the same on macOS and the BSDs.
    const LOCAL: u32 = 0x0000_1000;
    let found = rustix::fs::fstatfs(directory)?;
    #[allow(clippy::cast_sign_loss, reason = "characters of a C string")]
    let name: Vec<u8> = found.f_fstypename.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    #[allow(clippy::unnecessary_cast, reason = "the width of the flags differs between the systems")]
    let flags = found.f_flags as u32;
    Ok(FileSystem { name: String::from_utf8_lossy(&name).into_owned(), network: flags & LOCAL == 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
90 22 0:55 / /mnt/far rw,nosuid - fuse.sshfs me@far:/ rw,user_id=0
91 22 0:56 / /mnt/usb rw shared:7 master:2 - fuseblk /dev/sdb1 rw
92 22 0:57 / /mnt/host rw - virtiofs myfs rw
93 22 0:58 / /mnt/merged rw - fuse.fuse-overlayfs fuse-overlayfs rw
94 22 0:59 / /mnt/bucket rw - fuse.rclone remote: rw";

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        for (magic, name) in NETWORK {
            assert_eq!(classify(magic, "", 0, 1), FileSystem { name: name.to_owned(), network: true });
        }
        for local in [0xEF53, 0x0102_1994, 0x9123_683E, 0x5846_5342, 0x794C_7630, 0x2FC1_2FC1] {
            assert!(!classify(local, "", 0, 1).network, "{local:#x}");
        }
    }

    #[test]
    fn fuse_is_told_by_its_mount() {
        for (minor, name, network) in [
            (55, "fuse.sshfs", true),
            (56, "fuseblk", false),
            (57, "virtiofs", true),
            (58, "fuse.fuse-overlayfs", false),
            (59, "fuse.rclone", true),
        ] {
            assert_eq!(classify(FUSE, MOUNTS, 0, minor), FileSystem { name: name.to_owned(), network });
        }
        assert!(!classify(FUSE, MOUNTS, 9, 9).network, "one that is not listed is left to the probe of its locks");
    }
}
