//! Extended headers: records `LENGTH KEY=VALUE\n`, of which each length is that of its whole record.

/// What matters of an extended header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Extended<'a> {
    pub(crate) path: Option<&'a [u8]>,
    pub(crate) size: Option<u64>,
    pub(crate) sparse: bool,
}

/// Read an extended header. None where it is none, or says a size that no file has.
pub(crate) fn extended(mut content: &[u8]) -> Option<Extended<'_>> {
    let mut extended = Extended::default();
    // Some programs count the padding.
    while content.iter().any(|byte| *byte != 0) {
        let (key, value, rest) = record(content)?;
        content = rest;
        match key {
            b"path" => extended.path = Some(trimmed(value)).filter(|path| !path.is_empty()),
            b"size" if value.is_empty() => extended.size = None,
            b"size" => extended.size = Some(decimal(value).filter(|size| *size < 1 << 63)?),
            _ => extended.sparse |= key.starts_with(b"GNU.sparse."),
        }
    }
    Some(extended)
}

fn record(content: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = content.iter().take(20).position(|byte| *byte == b' ')?;
    let length = usize::try_from(decimal(content.get(..blank)?)?).ok()?;
    let (record, rest) = content.split_at_checked(length)?;
    let text = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|byte| *byte == b'=')?;
    Some((text.get(..equals)?, text.get(equals + 1..)?, rest))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// As Python's tarfile has it, also for files.
fn trimmed(mut path: &[u8]) -> &[u8] {
    while let Some(shorter) = path.strip_suffix(b"/") {
        path = shorter;
    }
    path
}
