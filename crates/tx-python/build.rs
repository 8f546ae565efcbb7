//! Options of the linker for a module of Python, which macOS needs.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
