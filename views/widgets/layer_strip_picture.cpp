#include "views/widgets/layer_strip_picture.h"

#include <utility>

#include "views/figure/layer_strip_image.h"

namespace kvscope::views {

LayerStripPicture::LayerStripPicture(const ViewServices& services)
    : services_(services),
      detail_{{}, HeatMap(*services.textures)},
      overview_{{}, HeatMap(*services.textures)},
      background_(services.wake) {}

LayerStripPicture::~LayerStripPicture() { stop_ = true; }

std::int64_t LayerStripPicture::cost(const RunRecord& run, TokenSpan span) {
  return static_cast<std::int64_t>(span.size()) * run.evict_at.n_layers() * run.evict_at.n_kv_heads();
}

Image LayerStripPicture::make(const Job& job, const std::atomic<bool>* stop) {
  const SpanCells cells(job.key.span, job.key.columns);
  return layer_strip_image(layer_strip(*job.run, job.key.q, cells, stop), job.run->evict_at.n_kv_heads(),
                           job.key.colours);
}

void LayerStripPicture::show(Layer& layer, const Key& key, const Image& image) {
  layer.key = key;
  layer.map.set(image);
}

void LayerStripPicture::ask(const ShownRun& shown, std::int32_t q, TokenSpan span, int columns) {
  take_done();
  const bool other_run = detail_.key.run.run.owner_before(shown.run) || shown.run.owner_before(detail_.key.run.run);
  wanted_ = {RunKey(&shown), q, span, columns, services_.theme->maps};
  if (other_run && !detail_.map.empty() && shown.run->status != RunStatus::running) {
    overview_.map.clear();  // of a run that is not on show any more
  }
  const TokenSpan whole{0, shown.run->n_tokens()};
  if (detail_.key != wanted_) {
    if (cost(*shown.run, span) <= kAtOnce) {
      looked_at_ += cost(*shown.run, span);
      show(detail_, wanted_, make({wanted_, shown.run, false}, nullptr));
    } else {
      const bool follows =
          detail_.key.span == span && detail_.key.columns == columns && shown.run->status == RunStatus::running;
      if (is_due(wanted_, follows)) post({wanted_, shown.run, false});
    }
    return;
  }
  Key all = wanted_;
  all.span = whole;
  if (span == whole || overview_.key == all) return;
  if (cost(*shown.run, whole) <= kAtOnce) {
    looked_at_ += cost(*shown.run, whole);
    show(overview_, all, make({all, shown.run, true}, nullptr));
  } else if (is_due(all, shown.run->status == RunStatus::running)) {
    post({all, shown.run, true});
  }
}

/// A run that grows asks ten times a second without anybody's hand: it has a fifth of the thread's time.
bool LayerStripPicture::is_due(const Key&, bool follows) const {
  return !background_.is_busy() && (!follows || Clock::now() - finished_ >= 4 * cost_);
}

void LayerStripPicture::post(Job job) {
  background_.post([this, job = std::move(job)] {
    const auto begin = Clock::now();
    Image image = make(job, &stop_);
    return Done{job, std::move(image), Clock::now() - begin};
  });
}

void LayerStripPicture::take_done() {
  const std::optional<Done> done = background_.take();
  if (!done) return;
  finished_ = Clock::now(), cost_ = done->cost;
  show(done->job.overview ? overview_ : detail_, done->job.key, done->image);
  // The whole run as the part that is shown is its overview too.
  if (!done->job.overview && done->job.key.span == TokenSpan{0, done->job.run->n_tokens()})
    show(overview_, done->job.key, done->image);
}

void LayerStripPicture::draw(ImDrawList& list, ImVec2 min, ImVec2 max, TokenSpan shown) const {
  list.PushClipRect(min, max, true);
  const auto x = [&](std::int32_t t) {
    return min.x + static_cast<float>(static_cast<double>(t - shown.begin) / shown.size()) * (max.x - min.x);
  };
  const auto place = [&](const Layer& layer, std::int32_t from, std::int32_t to) {
    if (layer.map.empty() || to <= from) return;
    list.PushClipRect({x(from), min.y}, {x(to), max.y}, true);
    layer.map.draw(list, {x(layer.key.span.begin), min.y}, {x(layer.key.span.end), max.y});
    list.PopClipRect();
  };
  // Beside the detail, which may be of the frame before a zoom out: both would shine through each other.
  const TokenSpan detail = detail_.map.empty() ? TokenSpan{shown.begin, shown.begin} : detail_.key.span;
  place(overview_, shown.begin, std::min(detail.begin, shown.end));
  place(overview_, std::max(detail.end, shown.begin), shown.end);
  place(detail_, std::max(detail.begin, shown.begin), std::min(detail.end, shown.end));
  list.PopClipRect();
}

}  // namespace kvscope::views
