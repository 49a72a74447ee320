// libtutti_cuda.so.
#include "cuda/cuda_plugin.h"
#include "cuda/plugin/cuda_device.h"
#include "cuda/plugin/runtime.h"

extern "C" __attribute__((visibility("default"))) const tutti::CudaPlugin tutti_cuda_plugin = {
    .why_not = tutti::cuda::why_not,
    .open = tutti::cuda::open_device,
    .allocate = tutti::cuda::allocate_on,
    .free = tutti::cuda::free,
    .copy = tutti::cuda::copy,
    .kind_of = tutti::cuda::kind_of};
