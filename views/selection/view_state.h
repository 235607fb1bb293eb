#pragma once
// What all views share: the runs on show, the selection, and what a view may ask of the program.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/record/pins.h"
#include "engine/core/record/query_attention.h"
#include "engine/core/record/run_record.h"
#include "engine/core/record/token_attention.h"
#include "engine/core/study/heads/token_lives.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/table/probe_summary.h"
#include "views/figure/fingerprints.h"
#include "views/figure/head_set.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/figure/run_grid.h"
#include "views/figure/token_span.h"
#include "views/figure/token_strip_figure.h"
#include "views/selection/listed_runs.h"
#include "views/selection/study_look.h"

namespace kvscope::views {

inline constexpr int kMaxPlaySpeed = 100000;

/// Time that goes on by itself. How fast and whether again and again is somebody's choice, that it does so is no place to
/// go back to.
struct Playback {
  bool on = false;
  int speed = 30;  // queries a second, 1 to kMaxPlaySpeed
  bool loop = false;
  double carry = 0;  // part of a query that has passed
};

/// How the layer x head map is looked at.
struct MapLook {
  MapCompare compare = MapCompare::side_by_side;  // where there is a B
  bool sort = false;                              // heads of a layer by value
  bool by_layer = false;                          // each layer divided by its largest value
  bool fit = false;                               // the scale goes over the values
  bool lock = true;                               // A and B by one scale
  ScaleClip clip, clip_b;                         // the thumbs; B's where it has a separate scale
  Aggregate aggregate = Aggregate::median;        // over the runs of a set
  bool operator==(const MapLook&) const = default;
};

/// A choice of global heads that is being made.
struct HeadBoard {
  HeadSet global;       // the others are local
  std::string rule;     // "a" to "d" while it is what that strategy chose; empty: chosen by hand
  double share = 0.25;  // of strategies c and d
  int seed = 0;         // of strategy c
  int context = 0;      // tokens: the length at which bytes are said; 0: the model's own
};

/// How the lifetimes are looked at.
struct LifetimesLook {
  LifeOrder order = LifeOrder::position;
  TokenSpan rows;     // shown, counted in the order; empty: all
  TokenSpan rows_of;  // the marked range that they are of: the rows of another one are all shown
  bool operator==(const LifetimesLook&) const = default;
};
/// How gates in training are looked at.
struct GateTrainingLook {
  std::string source;  // of several trainings; empty: the first
  int step = -1;       // -1: follows the last
  ProbeQuantity quantity = ProbeQuantity::kept;
  bool operator==(const GateTrainingLook&) const = default;
};
/// Whose attention to evicted tokens is drawn.
enum class UnseenHeads : std::uint8_t { one, layer, all };

/// How one view shows what it shows. A view that is open twice has two of them.
struct ViewLook {
  ColourMode colour = ColourMode::state;
  Metric metric = Metric::density;
  bool metric_chosen = false;  // by a person; until then the map may take one that varies
  MapLook map;
  bool layers = false;         // the strip has layers as rows instead of flowing text
  bool lost_by_layer = false;  // the lost fact's heads by layer instead of by what they lost
  FingerprintLook fingerprints;
  LifetimesLook lifetimes;
  UnseenHeads unseen_heads = UnseenHeads::one;
  bool unseen_whole = false;  // the axis of what a query could not see goes up to its greatest bar
  RunGridLook run_grid;
  GateTrainingLook gate_training;
  bool operator==(const ViewLook&) const = default;
};

/// One selection for every view: what is hovered or clicked in one is marked in all. Plain data. Its look is that of the
/// first view of each kind.
struct Selection {
  int layer = 0;
  int kv_head = 0;
  int token = -1;                 // cursor, -1 for none
  std::optional<std::int32_t> q;  // scrub position: the cache as query q sees it; empty follows the run
  int hovered_token = -1;
  bool hover_told = false;  // by a view in this frame
  ColourMode colour = ColourMode::state;
  Metric metric = Metric::density;
  bool metric_chosen = false;
  MapLook map;
  HeadSet heads;  // that were marked on the map; empty: none, and every view is about all
  HeadBoard board;
  StudyLook study;
  RunTableLook run_table;
  std::vector<int> runs;  // a set, by ascending id, that maps and distributions are of; empty: A alone
  TokenSpan view;         // queries and tokens that timeline, strip and deck show; empty: the whole run
  bool at_edge = false;   // `view` moves with the end of a run that goes on
  TokenSpan rows;         // tokens of the timeline's other axis; empty: all
  TokenSpan brush;        // a range that was marked; empty: none
  bool layers = false, lost_by_layer = false;
  FingerprintLook fingerprints;
  LifetimesLook lifetimes;
  UnseenHeads unseen_heads = UnseenHeads::one;
  bool unseen_whole = false;
  RunGridLook run_grid;
  GateTrainingLook gate_training;
  PinnedTexts pins;                      // of all texts, also of those that are not on show
  std::map<int, std::string> run_notes;  // by run id
  std::string find;  // what is searched for, as engine/core/study/measure/token_query.h reads it; empty: nothing
  Playback play;
};

ViewLook look_of(const Selection& selection);
void set_look(Selection& selection, const ViewLook& look);
/// Takes a metric because somebody asked for it: thumbs that were set for the one before go, and one without a natural maximum
/// opens on a scale that fits its values.
void choose_metric(Selection& selection, Metric metric);
/// For another run: no token, no range and no position of the one before.
void start_over(Selection& selection);
/// The part of a run of `n` tokens that is shown: never empty.
TokenSpan shown_span(const Selection& selection, int n);
/// The same of the timeline's axis of tokens.
TokenSpan shown_rows(const Selection& selection, int n);
/// Of the `n` rows of the lifetimes.
TokenSpan shown_life_rows(const Selection& selection, int n);
/// Shows that part, as far as the run has it. One that ends at the end of a run that goes on stays there.
void show_span(Selection& selection, TokenSpan span, const RunRecord& run);
/// The whole run again, on every axis.
void show_all(Selection& selection, const RunRecord& run);
/// Goes to query q. A view that showed the position before shows the new one too: it moves no further than it must, and
/// not at all where a person has looked away.
void scrub_to(Selection& selection, std::int32_t q, const RunRecord& run);
/// Moves the part that is shown until the token is in it: to its middle, where it was not.
void reveal_token(Selection& selection, std::int32_t token, const RunRecord& run);
/// Moves the cursor to a pin that the run shows.
void go_to_pin(Selection& selection, const PlacedPin& placed, const RunRecord& run);
/// Follows the run's end again.
void follow_end(Selection& selection, const RunRecord& run);
/// Plays for `seconds`: up to the end of what is shown, then again from its begin or no more.
void play_on(Selection& selection, const RunRecord& run, double seconds);

/// A selection as one run has it: every index inside its bounds, q a query of it.
struct Cursor {
  int layer = 0, kv_head = 0, token = -1;
  std::int32_t q = 0;
};
/// The run must have a token.
Cursor cursor(const Selection& selection, const RunRecord& run);

/// A run and how it came to be: a preview is never drawn like a measurement.
struct ShownRun {
  std::shared_ptr<const RunRecord> run;  // never null
  bool preview = false;
  std::string label;           // "A", "B", "preview of A"
  std::uint64_t revision = 0;  // rises when the run grows, so that a view may cache
};
/// A run that has something to draw: tokens and heads.
bool drawable(const ShownRun* shown);

/// Attention that the selected token of A gets from later queries: asked of the engine while somebody looks, and shown when
/// it has answered.
struct AskedAttention {
  bool wanted = false;                           // set by the view that draws it, in every frame
  std::shared_ptr<const TokenAttention> answer;  // of the selected layer and token; null: none yet
  std::string why_not;                           // the reason for none; empty while it is on its way
};

/// Attention that A's shown query gives the tokens up to it, asked in the same way.
struct AskedQueryAttention {
  bool wanted = false;
  /// Of A: of the shown query or, while that is on its way, of the query that was known last; null: none yet.
  std::shared_ptr<const QueryAttention> answer;
  std::string why_not;
};

/// What a view draws from and whom it asks. Views change the selection and run commands by id; nothing else.
struct ViewContext {
  const ShownRun* a = nullptr;  // null: nothing on show
  const ShownRun* b = nullptr;  // null: no comparison
  Selection* selection = nullptr;
  std::function<void(const std::string& command_id)> command;  // "run.start", "figure.export" ...
  AskedAttention* attention = nullptr;                         // null: no engine
  AskedQueryAttention* query_attention = nullptr;              // the same
  const std::vector<std::int32_t>* hits = nullptr;  // tokens of A that were found, ascending; null: no search
  const std::vector<PlacedPin>* pins = nullptr;     // of A's text, by letter; null: none
  const OpenStudies* studies = nullptr;             // null: none can be open
  /// The study on show; null if there is none.
  const OpenStudy* study() const { return studies == nullptr ? nullptr : studies->shown(selection->study); }
  const ListedRuns* listed = nullptr;          // all runs; null: there is no list
  const std::vector<ShownRun>* set = nullptr;  // runs chosen as a set, of A's shape, not empty; null: no set
  /// A, B and the other runs of the list that have A's layers and heads and its first n tokens, as many as views show beside
  /// each other; empty: none but A and B can be.
  std::function<std::vector<ShownRun>(int n)> same_text;
  std::int32_t q() const;  // the scrub position, resolved against run A; -1 if there is no run
  /// The selection in run A, or in another run at A's scrub position: both are seen at the same query.
  Cursor cursor_in(const RunRecord& run) const;
  /// The set, else A, and B where it is asked for.
  std::vector<ShownRun> counted_runs(bool with_b) const;
  /// Their query; -1, the last of each run, until the user scrubs.
  std::int32_t counted_q() const { return set != nullptr ? selection->q.value_or(-1) : q(); }
  /// Those of the marked heads that A has; empty: none is marked, and all are meant.
  HeadSet marked_heads() const;
};

}  // namespace kvscope::views
