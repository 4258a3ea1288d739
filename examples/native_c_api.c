/* Sluice from C: fits a line to points by gradient descent.
 *
 *   cc -std=c11 native_c_api.c $(pkg-config --cflags --libs sluice_c)
 */
#include "sluice/c_api.h"

#include <stdio.h>

/* The node that moves a variable against its slope. */
static sl_output Update(sl_graph* g, sl_output variable, sl_output slope) {
  sl_output step = SL_OP(g, "Mul", SL_INPUTS(slope, SL_SCALAR(g, 0.1f)));
  return SL_OP(g, "AssignSubVariableOp", SL_INPUTS(variable, step));
}

static sl_status* Fit(sl_graph* g, sl_session* session, sl_tensor** line) {
  const float xs[] = {0, 1, 2, 3}, ys[] = {1, 3, 5, 7};
  sl_output x = SL_CONSTANT(g, SL_FLOAT, SL_SHAPE(4), xs);
  sl_output y = SL_CONSTANT(g, SL_FLOAT, SL_SHAPE(4), ys);
  sl_output w = SL_VARIABLE(g, "w", SL_SCALAR(g, 0.0f));
  sl_output b = SL_VARIABLE(g, "b", SL_SCALAR(g, 0.0f));
  sl_output wx = SL_OP(g, "Mul", SL_INPUTS(x, SL_READ(g, w)));
  sl_output guess = SL_OP(g, "Add", SL_INPUTS(wx, SL_READ(g, b)));
  sl_output squares = SL_OP(g, "SquaredDifference", SL_INPUTS(guess, y));
  sl_output loss = SL_OP(g, "Mean", SL_INPUTS(squares, SL_SCALAR(g, 0)));
  sl_output slopes[2];
  SL_TRY(SL_GRADIENTS(g, SL_OUTPUTS(loss), SL_OUTPUTS(w, b), NULL, slopes));
  sl_output train = SL_OP(g, "NoOp", SL_AFTER(Update(g, w, slopes[0]),
                                              Update(g, b, slopes[1])));
  sl_tensor* nothing = NULL; /* What a node without outputs gives. */
  SL_TRY(sl_session_run(session, SL_NO_FEEDS, SL_OUTPUTS(SL_INITIALIZER(g)),
                        &nothing, NULL));
  for (int i = 0; i < 200; ++i)
    SL_TRY(sl_session_run(session, SL_NO_FEEDS, SL_OUTPUTS(train), &nothing,
                          NULL));
  return sl_session_run(session, SL_NO_FEEDS,
                        SL_OUTPUTS(SL_READ(g, w), SL_READ(g, b)), line, NULL);
}

int main(void) {
  sl_graph* graph = NULL;
  sl_session* session = NULL;
  sl_tensor* line[] = {NULL, NULL};
  sl_status* status = sl_graph_new(&graph);
  if (status == NULL) status = sl_session_new(graph, NULL, &session);
  if (status == NULL) status = Fit(graph, session, line);
  if (status == NULL)
    printf("y = %.2f x + %.2f\n", *(const float*)sl_tensor_data(line[0]),
           *(const float*)sl_tensor_data(line[1]));
  else /* It names the node, and its line above. */
    fprintf(stderr, "%s\n", sl_status_message(status));
  const int failed = status != NULL;
  sl_status_free(status);
  for (int i = 0; i < 2; ++i) sl_tensor_free(line[i]);
  sl_session_free(session);
  sl_graph_free(graph);
  return failed;
}
