// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <ctime>
#include <limits>

namespace tessera::test {

/// This process's time on all its cores so far.
inline double cpu_milliseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

/// The processor time of the fastest of three runs, each after `prepare`.
template <class Prepare, class Run>
double best_of_three(const Prepare& prepare, const Run& run) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    prepare();
    const double begin = cpu_milliseconds();
    run();
    best = std::min(best, cpu_milliseconds() - begin);
  }
  return best;
}

template <class Run>
double best_of_three(const Run& run) {
  return best_of_three([] {}, run);
}

}  // namespace tessera::test
