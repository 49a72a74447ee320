/* One rank that does nothing but AllReduce until something goes wrong: the victim and the witnesses of the fault tests.
 *
 * usage: endless_all_reduce COUNT   (floats; rank and size from the environment)
 * Prints "done N" after operation N, and at the end "error CODE: sentence", exit status 3. A wrong result is status 4.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

static int report(tuttiResult_t code, tuttiComm_t comm) {
  printf("error %d: %s\n", (int)code, tuttiGetLastError(comm));
  fflush(stdout);
  if (comm != NULL) tuttiCommDestroy(comm);
  return 3;
}

int main(int argc, char** argv) {
  const size_t count = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 1;
  float* send = malloc(count * sizeof(float));
  float* recv = malloc(count * sizeof(float));
  if (send == NULL || recv == NULL) return 2;
  for (size_t i = 0; i < count; ++i) send[i] = 1;

  tuttiComm_t comm = NULL;
  tuttiResult_t code = tuttiCommInitFromEnv(&comm, NULL);
  if (code != tuttiSuccess) return report(code, NULL);
  int nranks = 0;
  tuttiCommCount(comm, &nranks);

  for (unsigned long done = 1;; ++done) {
    code = tuttiAllReduce(send, recv, count, tuttiFloat32, tuttiSum, comm, NULL);
    if (code != tuttiSuccess) break;
    if (recv[0] != (float)nranks || recv[count - 1] != (float)nranks) return 4;
    printf("done %lu\n", done);
    fflush(stdout);
  }
  const int status = report(code, comm);
  free(send);
  free(recv);
  return status;
}
