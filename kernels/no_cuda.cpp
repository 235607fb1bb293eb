// The launchers of a build without CUDA (KVSCOPE_CUDA=OFF): there is no device, and each launcher says why.

#include <string>

#include "kernels/admit_step.h"
#include "kernels/append.h"
#include "kernels/attention_mass.h"
#include "kernels/cuda_error.h"
#include "kernels/decode_attention.h"
#include "kernels/device.h"
#include "kernels/embed_row.h"
#include "kernels/future_attention.h"
#include "kernels/gate.h"
#include "kernels/gate_score.h"
#include "kernels/lifetime_attention.h"
#include "kernels/logit_summary.h"
#include "kernels/mlstm_step.h"
#include "kernels/page_bounds.h"
#include "kernels/project.h"
#include "kernels/retain_step.h"
#include "kernels/ring_store.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/select_pages.h"
#include "kernels/step_graph.h"
#include "kernels/xor_words.h"

namespace kvscope::kernels {
namespace {

[[noreturn]] void no_cuda(const char* op) {
  throw CudaError(std::string(op) + ": this build has no CUDA; configure with KVSCOPE_CUDA=ON");
}

}  // namespace

int device_count() { return 0; }
std::string device_name(int) { no_cuda("device_name"); }
DeviceMemory device_memory(int) { no_cuda("device_memory"); }

void gate(const GateArgs&, Stream) { no_cuda("gate"); }
void rms_norm(const RmsNormArgs&, Stream) { no_cuda("rms_norm"); }
void rope(const RopeArgs&, Stream) { no_cuda("rope"); }
void append(const AppendArgs&, Stream) { no_cuda("append"); }
void append_many(const AppendManyArgs&, Stream) { no_cuda("append_many"); }
void retain_step(const RetainStepArgs&, Stream) { no_cuda("retain_step"); }
void decode_attention(const DecodeAttentionArgs&, Stream) { no_cuda("decode_attention"); }
void lifetime_attention(const LifetimeAttentionArgs&, Stream) { no_cuda("lifetime_attention"); }
void future_attention(const FutureAttentionArgs&, Stream) { no_cuda("future_attention"); }
void mlstm_step(const MlstmStepArgs&, Stream) { no_cuda("mlstm_step"); }
void project(const ProjectArgs&, Stream) { no_cuda("project"); }
void admit_step(const AdmitStepArgs&, Stream) { no_cuda("admit_step"); }
void gate_score(const GateScoreArgs&, Stream) { no_cuda("gate_score"); }
void embed_row(const EmbedRowArgs&, Stream) { no_cuda("embed_row"); }
void logit_summary(const LogitSummaryArgs&, Stream) { no_cuda("logit_summary"); }

void attention_mass(const AttentionMassArgs&, Stream) { no_cuda("attention_mass"); }
void page_bounds(const PageBoundsArgs&, Stream) { no_cuda("page_bounds"); }
void select_pages(const SelectPagesArgs&, Stream) { no_cuda("select_pages"); }
void ring_store(const RingStoreArgs&, Stream) { no_cuda("ring_store"); }
void xor_words(const XorWordsArgs&, Stream) { no_cuda("xor_words"); }

struct StepGraph::Impl {};
StepGraph::StepGraph() = default;
StepGraph::~StepGraph() = default;
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;
bool StepGraph::is_captured() const { return false; }
void StepGraph::capture(const std::function<void(Stream)>&) { no_cuda("StepGraph"); }
void StepGraph::launch(Stream) const { no_cuda("StepGraph"); }
void copy_async(void*, const void*, std::size_t, Stream) { no_cuda("copy_async"); }
void wait_for(Stream) { no_cuda("wait_for"); }
PinnedMemory::PinnedMemory(std::size_t) { no_cuda("PinnedMemory"); }
PinnedMemory::~PinnedMemory() = default;

}  // namespace kvscope::kernels
