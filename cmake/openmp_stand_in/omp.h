// The part of <omp.h> that Sluice calls, for the builds made by clang:
// Debian's clang 14 has no omp.h of its own, and cannot read g++'s.
#ifndef SLUICE_OMP_H_
#define SLUICE_OMP_H_

extern "C" {
int omp_get_max_threads(void);
int omp_get_num_threads(void);
int omp_get_thread_limit(void);
int omp_get_thread_limit(void);
int omp_get_thread_num(void);
int omp_in_parallel(void);
void omp_set_num_threads(int);
}

#endif  // SLUICE_OMP_H_
