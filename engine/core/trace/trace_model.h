#pragma once
// What a file says of its model: the attributes of /model are the fields of ModelInfo, by their names.

#include "engine/core/record/run_record.h"
#include "engine/core/trace/h5_handle.h"

namespace kvscope::trace {

void write_model(hid_t file, const ModelInfo& model);
/// Of the group /model. Throws H5Error (missing, of another type) and as check_model().
ModelInfo read_model(hid_t group, const std::string& file);

/// Ranges that every reader and writer keeps to (run_fields.h); Error if `model` is outside.
void check_model(const ModelInfo& model, const std::string& file);

/// Same model, field by field.
bool same_model(const ModelInfo& a, const ModelInfo& b);

}  // namespace kvscope::trace
