// Whether there is a GPU that can be used. The CUDA runtime is part of the plug-in, so this runs without a driver.
#include <cuda_runtime_api.h>

#include <cstdio>

extern "C" __attribute__((visibility("default"))) int tutti_cuda_probe(char* reason, size_t bytes) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return 0;
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  if (error == cudaSuccess) std::snprintf(reason, bytes, "the driver finds no GPU");
  else if (driver == 0)
    std::snprintf(reason, bytes, "no NVIDIA driver is installed (%s)", cudaGetErrorName(error));
  else
    std::snprintf(reason, bytes, "%s (the driver is for CUDA %d, the plug-in needs %d)", cudaGetErrorString(error), driver,
                  runtime);
  return 1;
}
