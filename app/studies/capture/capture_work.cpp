#include "app/studies/capture/capture_work.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "app/engine_client/run_setup.h"
#include "app/studies/capture/prompt_queue.h"
#include "app/studies/capture/run_writer.h"
#include "app/support/interrupt.h"
#include "engine/core/support/error.h"
#include "engine/core/support/seconds_since.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

using Place = PromptQueue::Place;  // in the list of prompts that are left

constexpr int kMostStops = 3;  // of an engine, without a run in between
constexpr std::chrono::milliseconds kPoll(50);

// What the engine says of a prompt, and not of itself or of the options.
bool is_of_prompt(const Error& error) { return error.code() == ExitCode::bad_input && error.parts().file == "prompt"; }

// How many prompts an engine decodes at once.
int batch_of(const CaptureAsked& asked, EngineJob& job, Progress& progress) {
  const int most = job.offer().runs_at_once;
  if (asked.batch > most)
    progress.say("warning: --batch " + std::to_string(asked.batch) + ": the engine decodes at most " +
                 std::to_string(most) + " at once");
  return asked.batch == 0 ? most : std::min(asked.batch, most);
}

// One capture: what its steps share. Several prompts are under way at once, and each engine has a thread; their runs are written
// in the order of the prompts, so that the trace is the same however many there were.
class Capture {
 public:
  Capture(const CaptureWork& work, CaptureEngines& engines, TraceWriter& writer, Progress& progress)
      : asked_(work.asked),
        plan_(work.plan),
        request_(work.request),
        model_(work.model),
        check_(work.check),
        engines_(engines),
        progress_(progress),
        left_(work.plan.left()),
        batch_(batch_of(work.asked, engines[0], progress)),
        queue_(left_.size(), engines.size()),
        stops_(engines.size(), 0),
        writing_(writer) {}

  std::int64_t run() {
    {
      std::vector<std::jthread> others;
      try {
        for (std::size_t i = 1; i < engines_.size(); ++i) others.emplace_back([this, i] { drive(i); });
      } catch (...) {  // no memory for one more
        fail();
      }
      drive(0);
    }
    if (failure_) std::rethrow_exception(failure_);
    writing_.wait();
    if (!is_cancelled_ && !interrupted()) check_all();
    return tokens_;
  }

 private:
  // An engine's thread: it gives it prompts until there are no more, or it does not start again.
  void drive(std::size_t engine) {
    try {
      while (true) {
        try {
          work(engine);
          return;
        } catch (const EngineStopped& stopped) {
          if (!is_to_start_again(engine, stopped) || !start_again(engine)) return;
        }
      }
    } catch (...) {
      fail();
    }
  }

  void work(std::size_t engine) {
    std::unique_lock lock(mutex_);
    for (; !queue_.is_over(); changed_.wait_for(lock, kPoll)) {  // another's prompts may come again
      lock.unlock();
      engines_[engine].run_all(
          model_, batch_, [&] { return next(engine); },
          [&](Place place, RunRecord run, const std::optional<Error>& error) {
            take(engine, place, std::move(run), error);
          });
      lock.lock();
    }
  }

  // The first one's reason counts; the other engines are cancelled.
  void fail() {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    queue_.close();
    engines_.stop();
  }

  // Nothing while too many runs wait for an earlier one, at the end, and on the way out.
  std::optional<EngineJob::NumberedRun> next(std::size_t engine) {
    const std::scoped_lock lock(mutex_);
    if (interrupted()) queue_.close();
    const std::size_t most_ahead = 4 * static_cast<std::size_t>(batch_) * engines_.size();
    while (const std::optional<Place> place = queue_.next(engine, written_ + most_ahead)) {
      show();
      const auto bad = check_.bad.find(left_[*place]);
      if (bad == check_.bad.end()) return EngineJob::NumberedRun{*place, request_of(*place)};
      queue_.done(engine, *place);
      keep(*place, failed_run(engine, *place, bad->second));
    }
    return std::nullopt;
  }

  RunRequest request_of(Place place) const {
    const Prompt& prompt = plan_.prompts[left_[place]];
    RunRequest request = request_;
    request.oracle_looks = false;  // no view shows them
    request.prompt = prompt.text;
    request.messages = messages_of(plan_.system, prompt);
    return request;
  }

  const std::string& where(Place place) const { return plan_.prompts[left_[place]].where; }

  RunRecord failed_run(std::size_t engine, Place place, std::string reason) {
    progress_.say("warning: " + escape_for_terminal(where(place), 150) + ": " + escape_for_terminal(reason) +
                  "; recorded as failed");
    EngineJob& job = engines_[engine];
    RunRecord run = start_record(model_, job.asked(request_of(place)), job.offer().recorder());
    finish_run(run, RunStatus::failed, std::move(reason));
    return run;
  }

  void take(std::size_t engine, Place place, RunRecord run, const std::optional<Error>& error) {
    const std::scoped_lock lock(mutex_);
    // A device that is lost or full: an engine that is new may have it.
    if (error && error->code() == ExitCode::resource) throw EngineStopped(error->parts());
    queue_.done(engine, place);
    stops_[engine] = 0;
    changed_.notify_all();
    if (error && asked_.skip_bad && is_of_prompt(*error)) {
      run = failed_run(engine, place, error->what());
    } else if (error || run.status == RunStatus::cancelled) {
      // Half a run is not what a later study counts on. Those before it go on to their ends, and none begins.
      queue_.close();
      if (error) errors_.emplace(place, *error);
      is_cancelled_ = is_cancelled_ || !error;
      return write();
    }
    keep(place, std::move(run));
  }

  void keep(Place place, RunRecord run) {
    run.prompt_index = left_[place];
    waiting_.emplace(place, std::move(run));
    write();
  }

  // Writes the runs before which none is still to come. An error is thrown when all before it are written.
  void write() {
    while (true) {
      const auto run = waiting_.find(written_);
      if (run != waiting_.end()) {
        tokens_ += run->second.n_tokens();
        writing_.add(std::move(run->second));
        waiting_.erase(run);
      } else if (!missing_.contains(written_)) {
        break;
      }
      ++written_;
    }
    const auto failed = errors_.find(written_);
    if (failed != errors_.end()) throw_error(failed->first, failed->second);
  }

  [[noreturn]] void throw_error(Place place, const Error& error) {
    writing_.wait();
    Error::Parts parts = error.parts();
    if (is_of_prompt(error)) parts.file = where(place);
    throw Error(std::move(parts));
  }

  bool is_to_start_again(std::size_t engine, const EngineStopped& stopped) {
    const std::scoped_lock lock(mutex_);
    std::set<Place> left_out = queue_.at_work(engine);
    const std::set<Place> again = queue_.stopped(engine);
    for (const Place place : again) left_out.erase(place);
    missing_.insert(left_out.begin(), left_out.end());
    changed_.notify_all();
    why_ = stopped;
    write();
    if (interrupted()) queue_.close();
    const bool starts = ++stops_[engine] < kMostStops && !queue_.is_over();
    std::string line = engines_.device(engine) + ": " + stopped.what();
    if (!left_out.empty()) line += "; left out: " + text_of(left_out);
    if (starts) line += "; starting it again";
    if (!again.empty()) line += "; decoding again: " + text_of(again);
    if (!interrupted()) warn(line);
    return starts;
  }

  bool start_again(std::size_t engine) {
    try {
      engines_.start_again(engine);
      return true;
    } catch (const Error& error) {
      const std::scoped_lock lock(mutex_);
      if (error.code() != ExitCode::cancelled) warn(engines_.device(engine) + ": not started again: " + error.what());
      return false;
    }
  }

  void warn(const std::string& line) {
    progress_.clear();
    print_warning(line);
  }

  // "prompts 3, 4, 5 and 12 more", as --shard counts them.
  std::string text_of(const std::set<Place>& places) const {
    constexpr std::size_t kMostNamed = 8;
    std::string text = places.size() == 1 ? "prompt" : "prompts";
    std::size_t n = 0;
    for (const Place place : places) {
      if (n++ == kMostNamed) return text + " and " + std::to_string(places.size() - kMostNamed) + " more";
      text += (n == 1 ? " " : ", ") + std::to_string(left_[place]);
    }
    return text;
  }

  // Every prompt that can be had is in the trace.
  void check_all() {
    if (!errors_.empty()) throw_error(errors_.begin()->first, errors_.begin()->second);
    for (Place place = written_; place < left_.size(); ++place) missing_.insert(place);
    if (missing_.empty()) return;
    Error::Parts parts = why_ ? why_->parts() : Error::Parts{.code = ExitCode::resource, .found = "no engine"};
    parts.where = "without " + text_of(missing_);
    throw Error(std::move(parts));
  }

  // What was decoded has a speed; what is committed counts.
  void show() {
    std::string rate;
    const auto n = static_cast<double>(written_);
    const double seconds = seconds_since(start_), rate_of_tokens = static_cast<double>(tokens_) / seconds;
    if (written_ > 0)
      rate = fixed_text(60 * n / seconds, 1) + " prompts/min, " +
             fixed_text(rate_of_tokens, rate_of_tokens < 10 ? 1 : 0) + " tok/s";
    progress_.update("capture", writing_.committed(), static_cast<double>(plan_.indices.size()), rate);
  }

  const CaptureAsked& asked_;
  const CapturePlan& plan_;
  const RunRequest& request_;
  const ModelInfo& model_;
  const PromptCheck& check_;
  CaptureEngines& engines_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  Progress& progress_;
  std::vector<int> left_;  // indices of the prompts that the trace lacks
  int batch_;
  PromptQueue queue_;
  std::vector<int> stops_;  // of each engine since its last run
  RunWriter writing_;
  std::size_t written_ = 0;
  std::map<Place, RunRecord> waiting_;  // ended, and not written
  std::set<Place> missing_;             // that stopped an engine twice
  std::map<Place, Error> errors_;
  std::optional<Error> why_;  // an engine stopped last
  std::exception_ptr failure_;
  bool is_cancelled_ = false;
  std::int64_t tokens_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

std::int64_t answer_prompts(const CaptureWork& work, CaptureEngines& engines, TraceWriter& writer, Progress& progress) {
  return Capture(work, engines, writer, progress).run();
}

}  // namespace kvscope::app
