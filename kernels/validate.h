#pragma once
// The checks that every back end makes before it touches memory: sizes, and pointers that may not be null.
//
// Each throws std::invalid_argument with operation, argument, value found and value expected. Which head_dim a kernel
// was compiled for is not asked here: cuda/dispatch.cuh and the CPU files refuse what they lack.

#include <stdexcept>
#include <string>

namespace kvscope::kernels {

struct RmsNormArgs;
struct RopeArgs;
struct AppendArgs;
struct AppendManyArgs;
struct RetainStepArgs;
struct DecodeAttentionArgs;
struct LifetimeAttentionArgs;
struct FutureAttentionArgs;
struct MlstmStepArgs;
struct ProjectArgs;
struct AdmitStepArgs;
struct EmbedRowArgs;
struct LogitSummaryArgs;
struct GateArgs;
struct GateScoreArgs;
struct XorWordsArgs;
struct AttentionMassArgs;
struct PageBoundsArgs;
struct SelectPagesArgs;
struct RingStoreArgs;

void validate(const RmsNormArgs& args);
void validate(const RopeArgs& args);
void validate(const AppendArgs& args);
void validate(const AppendManyArgs& args);
void validate(const RetainStepArgs& args);
void validate(const DecodeAttentionArgs& args);
void validate(const LifetimeAttentionArgs& args);
void validate(const FutureAttentionArgs& args);
void validate(const MlstmStepArgs& args);
void validate(const ProjectArgs& args);
void validate(const AdmitStepArgs& args);
void validate(const EmbedRowArgs& args);
void validate(const LogitSummaryArgs& args);
void validate(const GateArgs& args);
void validate(const GateScoreArgs& args);
void validate(const XorWordsArgs& args);
void validate(const AttentionMassArgs& args);
void validate(const PageBoundsArgs& args);
void validate(const SelectPagesArgs& args);
void validate(const RingStoreArgs& args);

/// Throws "<op>: <name> is <value>; expected <expected>".
[[noreturn]] inline void refuse(const char* op, const char* name, long long value, const char* expected) {
  throw std::invalid_argument(std::string(op) + ": " + name + " is " + std::to_string(value) + "; expected " +
                              expected);
}

}  // namespace kvscope::kernels
