//! The class `Frames`.

use pyo3::prelude::*;
use zrecord::{Codec, Places};

use crate::array::{Destination, Numbers, Source};
use crate::error::{Raise, detached};

/// Decodes records that lie in another container than a store. From any number of threads, each call on its own thread.
#[pyclass(module = "loaderx._core", frozen)]
pub(crate) struct Frames(zrecord::Frames);

#[pymethods]
impl Frames {
    /// `dictionary`: for "zstd_dict" only. ValueError for what is none.
    #[new]
    #[pyo3(signature = (codec, dictionary = None))]
    fn new(py: Python<'_>, codec: &str, dictionary: Option<&[u8]>) -> PyResult<Self> {
        let codec: Codec = codec.parse().map_err(|error: zrecord::CodecError| error.raise(py))?;
        detached(py, || zrecord::Frames::new(codec, dictionary)).map(Self)
    }

    /// Record i, stored in the bytes starts[i] to ends[i] of `src`, into the bytes offsets[i] to offsets[i + 1] of the C-contiguous `dst`.
    ///
    /// ValueError if ranges don't lie in them; ZrecordError, which names the record as `first` + i, for one that does not decode to just so
    /// many bytes.
    #[pyo3(signature = (src, starts, ends, dst, offsets, first = 0))]
    #[expect(clippy::too_many_arguments, reason = "places in two buffers")]
    fn decode(
        &self,
        py: Python<'_>,
        src: Source<'_>,
        starts: Numbers<'_>,
        ends: Numbers<'_>,
        mut dst: Destination<'_>,
        offsets: Numbers<'_>,
        first: u64,
    ) -> PyResult<()> {
        let places =
            Places { starts: starts.as_slice()?, ends: ends.as_slice()?, offsets: offsets.as_slice()? };
        let (src, dst) = (src.as_slice()?, dst.as_mut_slice()?);
        detached(py, || self.0.decode(src, places, dst, first))
    }
}
