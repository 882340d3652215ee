//! Where memory maps are safe.

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
