"""The smallest program in Python: each rank's number, summed.

    tutti run -n 4 -- python3 examples/all_reduce.py      (or torchrun, mpirun, mpiexec, srun)
"""

import array

import tutti

with tutti.init() as comm:
    numbers = array.array("d", [comm.rank + 1.0])
    comm.all_reduce(numbers)
    print(f"rank {comm.rank} of {comm.size}: the sum is {numbers[0]:g}")
