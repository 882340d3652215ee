//! Where memory maps are safe.

use std::fs::File;
use std::path::Path;

/// File systems on which another machine, or a user-space server, can change or cut a file under a map
/// (magic numbers as in statfs(2)).
#[cfg(target_os = "linux")]
const REMOTE: [u64; 7] = [
    0x6969,      // NFS
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB2
    0x517B,      // SMB
    0x6573_5546, // FUSE
    0x0BD0_0BD0, // Lustre
    0x0102_1997, // 9P
];

/// Whether `path` lies on a local file system; what can't be asked counts as local.
pub(crate) fn is_local(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        let kind = rustix::fs::statfs(path).map(|found| found.f_type);
        kind.map_or(true, |kind| !REMOTE.contains(&u64::try_from(kind).unwrap_or_default()))
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
