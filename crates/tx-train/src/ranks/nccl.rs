//! Ranks of MPI that add up gradients in the memory of NVIDIA GPUs, by NCCL.

use std::{
    fmt::{self, Debug},
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
};

use burn::{
    backend::{Cube, DispatchDevice},
    cubecl::{Device as CubeDevice, cuda::CudaRuntime},
    tensor::{Device, Tensor},
};
use cubecl_runtime::runtime::Runtime;
use cudarc::{
    driver::{CudaContext, CudaStream},
    nccl::{Comm, Id, ReduceOp},
};
use mpi::topology::Communicator;

use super::{
    Ranks,
    mpi::{MpiRanks, world},
};
use crate::error::TrainError;

/// Server of the memory and the kernels of a GPU.
type Server = <CudaRuntime as Runtime>::Server;

/// Ranks of an MPI job with one GPU each. NCCL adds up the gradients, MPI everything else.
pub struct NcclRanks {
    mpi: MpiRanks,
    /// Index of the GPU.
    gpu: usize,
    connection: Mutex<Connection>,
}

/// Connection of a GPU to those of the other ranks.
struct Connection {
    comm: Comm,
    stream: Arc<CudaStream>,
}

// SAFETY: NCCL allows calls by any thread, one at a time for each communicator. The pointer of `comm`
// is used by the owner of the connection only.
#[allow(unsafe_code)]
unsafe impl Send for Connection {}

impl NcclRanks {
    /// Connects the GPUs of all ranks, which all make this call. `None` if any rank trains on another
    /// kind of device or on several, or has no NCCL library; then MPI adds up the gradients.
    ///
    /// # Errors
    ///
    /// If CUDA or NCCL reports an error, such as for two ranks with the same GPU.
    pub fn connect(mpi: MpiRanks, devices: &[Device]) -> Result<Option<Self>, TrainError> {
        // SAFETY: only loads the library, which runs its initializers.
        #[allow(unsafe_code)]
        let has_library = unsafe { cudarc::nccl::sys::is_culib_present() };
        let gpu = match devices {
            [device] if has_library => gpu(device),
            _ => None,
        };
        let count = mpi.sum_counts(vec![f64::from(u8::from(gpu.is_some()))]);
        let Some(gpu) = gpu.filter(|_| count == [mpi.count() as f64]) else { return Ok(None) };
        let problem = |error: &dyn Debug| {
            let problem = format!("rank {}: GPU {gpu}: {error:?}", mpi.rank());
            TrainError::Problems { problems: vec![problem] }
        };
        // Without an identifier, the first rank returns an error, which ends the job; the others wait
        // for it.
        let id = match mpi.is_first() {
            true => Some(Id::new().map_err(|error| problem(&error))?),
            false => None,
        };
        let bytes = id.map_or(Vec::new(), |id| id.internal().map(|byte| byte as u8).to_vec());
        let bytes = mpi.broadcast(bytes);
        let id = std::array::from_fn(|index| bytes.get(index).copied().unwrap_or(0) as _);
        let stream = CudaContext::new(gpu)
            .and_then(|context| context.new_stream())
            .map_err(|error| problem(&error))?;
        let comm = Comm::from_rank(stream.clone(), mpi.rank(), mpi.count(), Id::uninit(id))
            .map_err(|error| problem(&error))?;
        Ok(Some(Self { mpi, gpu, connection: Mutex::new(Connection { comm, stream }) }))
    }

    /// Adds up the values of all ranks in the buffer of `values`.
    fn add_up(&self, values: &Tensor<1>) -> Result<(), String> {
        let len = values.shape().num_elements();
        let tensor = values.clone().try_into_primitive::<Cube>();
        let tensor = tensor.map_err(|error| format!("{error:?}"))?;
        let resource = tensor.client.get_resource::<Server>(tensor.handle.clone());
        let resource = resource.map_err(|error| format!("{error:?}"))?;
        // NCCL has its own stream, so the values must have been computed before.
        values.device().sync().map_err(|error| format!("{error:?}"))?;
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let Connection { comm, stream } = &*connection;
        // SAFETY: the resource keeps the buffer of `len` values in place, and CubeCL and this stream have
        // the primary context of the same GPU. All work on the buffer has ended.
        #[allow(unsafe_code)]
        let mut buffer = unsafe { stream.upgrade_device_ptr::<f32>(resource.resource().ptr, len) };
        let sent = comm.all_reduce_in_place(&mut buffer, &ReduceOp::Sum);
        let ended = stream.synchronize();
        // The buffer belongs to the tensor.
        buffer.leak();
        sent.map_err(|error| format!("{error:?}"))?;
        ended.map_err(|error| format!("{error:?}"))
    }
}

impl Debug for NcclRanks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NcclRanks")
            .field("mpi", &self.mpi)
            .field("gpu", &self.gpu)
            .finish_non_exhaustive()
    }
}

impl Ranks for NcclRanks {
    fn rank(&self) -> usize {
        self.mpi.rank()
    }

    fn count(&self) -> usize {
        self.mpi.count()
    }

    fn sum(&self, values: Vec<f32>) -> Vec<f32> {
        self.mpi.sum(values)
    }

    fn adds_on(&self, device: &Device) -> bool {
        gpu(device) == Some(self.gpu)
    }

    /// An error of NCCL ends the job, as an error of MPI does.
    fn sum_tensor(&self, values: Tensor<1>) -> Tensor<1> {
        // The buffer is overwritten, so no other tensor may have it.
        let values = values * 1.0;
        if let Err(problem) = self.add_up(&values) {
            let (rank, gpu) = (self.rank(), self.gpu);
            drop(writeln!(io::stderr(), "error: rank {rank}: GPU {gpu}: NCCL: {problem}"));
            world().abort(1);
        }
        values
    }

    fn sum_counts(&self, values: Vec<f64>) -> Vec<f64> {
        self.mpi.sum_counts(values)
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.mpi.broadcast(bytes)
    }
}

/// Returns the index of a GPU of CUDA; `None` for other devices.
fn gpu(device: &Device) -> Option<usize> {
    match device.clone().inner().as_dispatch() {
        DispatchDevice::Cube(CubeDevice::Cuda(gpu)) => Some(gpu.index),
        _ => None,
    }
}
