//! The Python binding: what `#[pymodule]` puts into `loaderx._core`. The contract is `python/loaderx/_core.pyi`.
//!
//! Each method takes its arguments, borrows their buffers, releases the interpreter, calls one core function and
//! maps the error. Whatever is worth deciding is decided in the cores or in plain Python.

mod array;
mod dict;
mod draws;
mod error;
mod files;
mod frames;
mod fresh;
mod gather;
mod handler;
mod integrity;
mod memory;
mod owned;
mod packed;
mod padding;
mod pipeline;
mod records;
mod rows;
mod sampler;
mod shapes;
mod store;
mod tar;
mod tfrecord;
mod view;

use pyo3::prelude::*;
use pyo3::wrap_pyfunction;

#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("MAX_RECORD_LEN", zrecord::MAX_RECORD_LEN)?;
    module.add("MAX_RANK", zrecord::MAX_RANK)?;
    module.add("ORDER_VERSION", zsampler::ORDER_VERSION)?;
    error::add_exceptions(module)?;
    module.add_class::<store::Store>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<frames::Frames>()?;
    module.add_class::<tar::TarWalk>()?;
    module.add_class::<sampler::Sampler>()?;
    module.add_class::<draws::Draws>()?;
    module.add_class::<pipeline::Pipeline>()?;
    module.add_class::<gather::Gather>()?;
    module.add_class::<gather::Made>()?;
    module.add_function(wrap_pyfunction!(dict::build_dict, module)?)?;
    module.add_function(wrap_pyfunction!(integrity::verify, module)?)?;
    module.add_function(wrap_pyfunction!(integrity::repair, module)?)?;
    module.add_function(wrap_pyfunction!(files::read_small_file, module)?)?;
    module.add_function(wrap_pyfunction!(files::replace_file, module)?)?;
    module.add_function(wrap_pyfunction!(memory::empty_array, module)?)?;
    module.add_function(wrap_pyfunction!(memory::batch_memory, module)?)?;
    module.add_function(wrap_pyfunction!(rows::split, module)?)?;
    module.add_function(wrap_pyfunction!(records::ready, module)?)?;
    module.add_function(wrap_pyfunction!(records::pack, module)?)?;
    module.add_function(wrap_pyfunction!(shapes::fits, module)?)?;
    module.add_function(wrap_pyfunction!(shapes::shapes, module)?)?;
    module.add_function(wrap_pyfunction!(shapes::rows_of, module)?)?;
    module.add_function(wrap_pyfunction!(padding::pad_packed, module)?)?;
    module.add_function(wrap_pyfunction!(padding::pad_list, module)?)?;
    module.add_function(wrap_pyfunction!(tfrecord::tfrecord_walk, module)?)?;
    module.add_function(wrap_pyfunction!(tfrecord::scan_examples, module)?)?;
    module.add_function(wrap_pyfunction!(tfrecord::parse_examples, module)?)?;
    // PyO3 keeps a list of what was added; the stub has none.
    module.delattr("__all__")
}
