"""The parts of perf/compare and perf/grid: programs, subjects, rounds, tables and the picture."""
