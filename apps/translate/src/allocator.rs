//! The allocator: one that is quick to start and does not clear pages it has just given back.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
