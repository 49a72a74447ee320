/* A library that is wrong on purpose, loaded before the real one: rank 1's result of a sum of floats has a bit wrong, in
 * the element that SPOIL_ELEMENT numbers; -1 is the one behind the end. What the tools say of it is what is tested. */
#include <dlfcn.h>
#include <stdlib.h>

#include "tutti/tutti.h"

TUTTI_API tuttiResult_t tuttiAllReduce(const void* send, void* recv, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                                       tuttiComm_t comm, tuttiStream_t stream) {
  tuttiResult_t (*real)(const void*, void*, size_t, tuttiDataType_t, tuttiRedOp_t, tuttiComm_t, tuttiStream_t);
  *(void**)&real = dlsym(RTLD_NEXT, "tuttiAllReduce");
  const tuttiResult_t result = real(send, recv, count, type, op, comm, stream);
  const char* element = getenv("SPOIL_ELEMENT");
  int rank = 0;
  tuttiCommUserRank(comm, &rank);
  if (type == tuttiFloat32 && rank == 1 && element != NULL) {
    const long place = atol(element);
    ((unsigned*)recv)[place < 0 ? (long)count : place] ^= 1;
  }
  return result;
}
