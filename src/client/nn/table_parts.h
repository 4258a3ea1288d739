// Where the rows of a table in parts are. Internal.
#ifndef SLUICE_CLIENT_NN_TABLE_PARTS_H_
#define SLUICE_CLIENT_NN_TABLE_PARTS_H_

#include "client/nn/embedding.h"

namespace sluice {

// InvalidArgument unless the parts divide the rows of one table as either
// strategy does.
Status CheckTable(const EmbeddingTable& table);

// InvalidArgument, of `what`, unless they are int32 or int64.
Status CheckIds(const Output& ids, const char* what);
// The ids in a type that can tell all rows apart: int64 if there are many.
Output IdsForRows(const Output& ids, int64_t rows);

// The number of rows in the parts before `part`.
int64_t FirstOfPart(int64_t part, int64_t parts, int64_t rows);

// For each id the part that has its row (int32), and the row there (of the type
// of the ids). Ids out of range have a row that is out of range in its part.
struct PlacesInParts {
  Output part, row;
};
PlacesInParts FindInParts(const Output& ids, int64_t parts, int64_t rows,
                          PartitionStrategy strategy);

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_TABLE_PARTS_H_
