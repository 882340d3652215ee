//! Where memory maps are safe.

use std::fs::File;
use std::path::Path;

/// Whether `path` lies on a local file system; what can't be asked counts as local.
pub(crate) fn is_local(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        let kind = rustix::fs::statfs(path).map(|found| found.f_type);
        kind.map_or(true, |kind| !is_remote(u64::try_from(kind).unwrap_or_default()))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        true
    }
}

/// Whether reading `file` through a map could need space on its file system: a file system in memory fills a hole that is read so,
/// and a process that it has no page for is ended (SIGBUS). A copy of a store can have holes wherever it holds zeros.
pub(crate) fn reading_takes_space(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    {
        const TMPFS: u64 = 0x0102_1994;
        let in_memory = rustix::fs::fstatfs(file)
            .is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|kind| kind == TMPFS));
        // All access is positional, so nobody misses the cursor that this moves. The end of the file counts as a hole.
        let end = || rustix::fs::seek(file, rustix::fs::SeekFrom::End(0));
        let hole = || rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(0));
        in_memory && !matches!((hole(), end()), (Ok(hole), Ok(end)) if hole == end)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        false
    }
}

/// Whether another machine, or a user-space server, can change or cut a file under a map: by the magic number of statfs(2),
/// those that coreutils' stat calls remote.
#[cfg(target_os = "linux")]
fn is_remote(kind: u64) -> bool {
    matches!(
        kind,
        0x6969 // NFS
        | 0xFF53_4D42 // CIFS
        | 0xFE53_4D42 // SMB2
        | 0x517B // SMB
        | 0x6573_5546 // FUSE, virtiofs
        | 0x0BD0_0BD0 // Lustre
        | 0x0102_1997 // 9P
        | 0x00C3_6400 // Ceph
        | 0x4750_4653 // GPFS
        | 0x1983_0326 // BeeGFS
        | 0x5346_414F // AFS
        | 0x6B41_4653 // AFS of the kernel
        | 0xAAD7_AAEA // PanFS
        | 0x786F_4256 // VirtualBox shared folders
    )
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Written down a second time, as decimal or text where the number is one.
    #[test]
    fn each_remote_file_system_is_read_without_maps() {
        let text = |name: &[u8; 4]| u64::from(u32::from_be_bytes(*name));
        let remote = [
            ("NFS", 26985),
            ("CIFS", text(b"\xFFSMB")),
            ("SMB2", text(b"\xFESMB")),
            ("SMB", 20859),
            ("FUSE", text(b"esUF")),
            ("Lustre", 198_183_888),
            ("9P", 16_914_839),
            ("Ceph", 12_805_120),
            ("GPFS", text(b"GPFS")),
            ("BeeGFS", 428_016_422),
            ("AFS", text(b"SFAO")),
            ("kAFS", text(b"kAFS")),
            ("PanFS", 2_866_260_714),
            ("vboxsf", text(b"xoBV")),
        ];
        for (name, kind) in remote {
            assert!(is_remote(kind), "{name}");
        }
    }

    #[test]
    fn local_file_systems_are_mapped() {
        let local = [
            ("ext4", 0xEF53),
            ("XFS", 0x5846_5342),
            ("btrfs", 0x9123_683E),
            ("tmpfs", 0x0102_1994),
            ("overlay", 0x794C_7630),
            ("ZFS", 0x2FC1_2FC1),
            ("F2FS", 0xF2F5_2010),
            ("squashfs", 0x7371_7368),
            ("unknown", 0),
        ];
        for (name, kind) in local {
            assert!(!is_remote(kind), "{name}");
        }
        assert!(is_local(&std::env::temp_dir().join("not there")));
    }
}
