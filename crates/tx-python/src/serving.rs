//! The HTTP server.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use pyo3::prelude::*;
use tx_catalogue::Store;
use tx_serve::{Cors, ModelSpec, ServeError, Server, ServerOptions, Stop};

use crate::{
    error::{IntoException, internal, invalid},
    interrupt::interruptible,
    options::precision,
};

/// Server that runs in threads of its own.
#[pyclass(name = "Server", module = "txmt", frozen)]
pub(crate) struct PyServer {
    address: SocketAddr,
    running: Mutex<Running>,
}

/// Handles of a server that runs; `None` after it was stopped.
struct Running {
    stop: Option<Stop>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

#[pymethods]
impl PyServer {
    #[new]
    #[pyo3(signature = (models, *, host = "127.0.0.1", port = 5000, threads = None,
                        compute_type = "default", keys = None))]
    fn new(
        py: Python<'_>,
        models: BTreeMap<String, PathBuf>,
        host: &str,
        port: u16,
        threads: Option<usize>,
        compute_type: &str,
        keys: Option<PathBuf>,
    ) -> PyResult<Self> {
        let specs = models.into_iter().map(|(name, folder)| {
            let spec: ModelSpec = format!("{name}=.").parse().map_err(invalid)?;
            Ok(ModelSpec { folder: Store::resolve(folder), ..spec })
        });
        let mut options = ServerOptions::new(specs.collect::<PyResult<_>>()?);
        let address = (host, port).to_socket_addrs().ok().and_then(|mut found| found.next());
        options.listen =
            address.ok_or_else(|| invalid(format!("host={host:?} is not the name of a host")))?;
        options.cors = Some(Cors::default_of(options.listen));
        options.execution.precision = precision(compute_type)?;
        if let Some(threads) = threads {
            options.execution.threads = threads.max(1);
        }
        options.keys = keys;
        let start = || -> Result<Self, ServeError> {
            let server = Server::bind(options)?;
            let address = server.address()?;
            let (stop, stopped) = Server::stop_handle();
            let thread = std::thread::spawn(move || server.run(Some(stopped)));
            let running = Mutex::new(Running { stop: Some(stop), thread: Some(thread) });
            Ok(Self { address, running })
        };
        interruptible(py, || {}, start)?.map_err(IntoException::into_exception)
    }

    #[getter]
    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    #[getter]
    fn port(&self) -> u16 {
        self.address.port()
    }

    /// Stops the server after the requests in progress.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.end();
        self.wait(py)
    }

    /// Waits until the server is stopped. Ctrl-C stops it.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let Some(thread) = self.running().thread.take() else { return Ok(()) };
        let ended = interruptible(py, || self.end(), || thread.join())?;
        match ended {
            Ok(result) => result.map_err(IntoException::into_exception),
            Err(_) => Err(internal()),
        }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.stop(py)
    }
}

impl PyServer {
    fn end(&self) {
        if let Some(stop) = self.running().stop.take() {
            stop.stop();
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PyServer {
    fn drop(&mut self) {
        self.end();
    }
}
