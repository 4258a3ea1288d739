/* Programs in C11 that use the native C API. Each returns NULL, or what went
 * wrong. */
#ifndef SLUICE_CAPI_TESTING_NATIVE_PROGRAM_H_
#define SLUICE_CAPI_TESTING_NATIVE_PROGRAM_H_

#ifdef __cplusplus
extern "C" {
#endif

const char* sl_test_trains(void);
const char* sl_test_loops(void);
const char* sl_test_branches(void);
const char* sl_test_functions(void);
const char* sl_test_lines(void);
const char* sl_test_attributes(void);
const char* sl_test_checkpoint(const char* path);
const char* sl_test_lent(void);
const char* sl_test_graphs(void);
const char* sl_test_registry(void);
const char* sl_test_slopes(void);
const char* sl_test_nodes_without_outputs(void);
const char* sl_test_calls_without_results(void);
const char* sl_test_other_graphs(void);
const char* sl_test_overlaps(void);
const char* sl_test_undeclared(void);
const char* sl_test_origins(void);
const char* sl_test_strings(void);
const char* sl_test_items(void);
const char* sl_test_sparse_slopes(void);
const char* sl_test_variables(void);
const char* sl_test_async(void);

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_CAPI_TESTING_NATIVE_PROGRAM_H_ */
