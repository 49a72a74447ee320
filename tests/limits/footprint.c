/* How much memory a communicator costs one rank: the process's peak after init and ten 1 MiB AllReduces, above its
 * peak before, with the buffers already touched. Prints "rank R: above KIB". Exit status 1 on an error or a wrong sum.
 */
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

enum { kCount = 1 << 18, kRounds = 10 };
static float send[kCount], recv[kCount];

/* VmHWM of /proc/self/status, in KiB. */
static long peak_kib(void) {
  char line[256];
  long peak = -1;
  FILE* status = fopen("/proc/self/status", "r");
  if (status == NULL) return -1;
  while (fgets(line, sizeof line, status) != NULL) {
    if (sscanf(line, "VmHWM: %ld", &peak) == 1) break;
  }
  fclose(status);
  return peak;
}

#define TRY(call)                                                  \
  do {                                                             \
    if ((call) != tuttiSuccess) {                                  \
      fprintf(stderr, "%s: %s\n", #call, tuttiGetLastError(NULL)); \
      return 1;                                                    \
    }                                                              \
  } while (0)

int main(void) {
  for (int i = 0; i < kCount; ++i) send[i] = (float)(i % 7);
  memset(recv, 1, sizeof recv);
  const long before = peak_kib();

  tuttiComm_t comm;
  int rank, nranks;
  TRY(tuttiCommInitFromEnv(&comm, NULL));
  TRY(tuttiCommUserRank(comm, &rank));
  TRY(tuttiCommCount(comm, &nranks));
  for (int round = 0; round < kRounds; ++round) {
    TRY(tuttiAllReduce(send, recv, kCount, tuttiFloat32, tuttiSum, comm, NULL));
    for (int i = 0; i < kCount; ++i) {
      if (recv[i] != send[i] * (float)nranks) {
        fprintf(stderr, "rank %d: element %d is %g in round %d\n", rank, i, recv[i], round);
        return 1;
      }
    }
  }
  printf("rank %d: above %ld\n", rank, peak_kib() - before);
  TRY(tuttiCommDestroy(comm));
  return 0;
}
