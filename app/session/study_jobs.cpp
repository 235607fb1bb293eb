#include "app/session/study_jobs.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/support/usage.h"
#include "engine/core/support/child_process.h"
#include "engine/core/support/shell_quote.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr int kCancelled = 130;  // the exit code after Ctrl+C, 128 + its signal
constexpr std::chrono::seconds kEndPatience(3);
constexpr std::string_view kErrorMark = "error: ";  // of a command's last line

std::string value_of(const std::vector<std::string>& words, const std::string& option) {
  const auto at = std::ranges::find(words, option);
  return at == words.end() || at + 1 == words.end() ? std::string() : *(at + 1);
}

/// /proc/self/exe is another program in the process that env becomes.
std::string resolved(std::string program) {
  std::error_code error;
  const fs::path target = fs::read_symlink(program, error);
  return error ? program : target.string();
}

/// A capture continues its trace only if it is told to; the others find their journal.
std::vector<std::string> words_to_resume(const StudyJob& job) {
  std::vector<std::string> words = job.words;
  std::error_code error;
  if (job.command() != "capture" || !fs::exists(job.output(), error)) return words;
  std::erase(words, "--overwrite");
  if (std::ranges::find(words, "--resume") == words.end()) words.push_back("--resume");
  return words;
}

}  // namespace

std::string StudyJob::output() const {
  const std::string file = value_of(words, "-o");
  return file.empty() ? file : (fs::path(folder) / file).lexically_normal().string();
}

std::string StudyJob::command_line() const {
  std::string line = "kvscope";
  for (const std::string& word : words) line += " " + shell_quote(word);
  return line;
}

std::string_view to_string(StudyJob::State state) {
  static constexpr std::string_view kNames[] = {"running", "stopping", "stopped", "failed", "complete"};
  return kNames[static_cast<std::size_t>(state)];
}

/// The process of a job, and the thread that reads what it prints. stdout is the command's table, which its file has too.
struct StudyJobs::Process {
  Process(int id, const std::vector<std::string>& argv, std::function<void()> wake)
      : id(id), child(ChildProcess::start(argv)), wake(std::move(wake)) {
    reader = std::thread([this] { read(); });
  }
  ~Process() {
    child.signal_group(SIGTERM);
    if (!child.wait(kEndPatience)) child.signal_group(SIGKILL);
    reader.join();
  }

  void read() {
    std::string rest;
    pollfd streams[] = {{child.stderr_fd(), POLLIN, 0}, {child.stdout_fd(), POLLIN, 0}};
    while (streams[0].fd >= 0 || streams[1].fd >= 0) {
      if (::poll(streams, 2, -1) < 0 && errno != EINTR) break;
      for (pollfd& stream : streams) {
        if (stream.fd < 0 || stream.revents == 0) continue;
        char buffer[4096];
        const ssize_t n = ::read(stream.fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
          stream.fd = -1;
        } else if (&stream == &streams[0]) {
          add(rest.append(buffer, static_cast<std::size_t>(n)));
        }
      }
    }
    const std::lock_guard lock(mutex);
    if (!rest.empty()) lines.push_back(rest);
    ended = true;
    wake();
  }

  /// Takes the whole lines out of `text`.
  void add(std::string& text) {
    const std::size_t end = text.rfind('\n');
    if (end == std::string::npos) return;
    const std::lock_guard lock(mutex);
    for (std::size_t at = 0; at <= end;) {
      const std::size_t stop = text.find('\n', at);
      lines.push_back(text.substr(at, stop - at));
      at = stop + 1;
    }
    text.erase(0, end + 1);
    wake();
  }

  int id;
  ChildProcess child;
  std::function<void()> wake;
  std::mutex mutex;
  std::vector<std::string> lines;  // of stderr, not yet taken
  bool ended = false;              // both streams
  std::thread reader;
};

StudyJobs::StudyJobs(std::string program, std::vector<StudyForm> forms, std::function<void()> wake, Messages& messages,
                     Revision& revision)
    : program_(resolved(std::move(program))),
      forms_(std::move(forms)),
      wake_(wake ? std::move(wake) : [] {}),
      messages_(messages),
      revision_(revision) {}

StudyJobs::~StudyJobs() = default;

StudyJob& StudyJobs::find(int id) {
  const auto found = std::ranges::find(jobs_, id, &StudyJob::id);
  if (found == jobs_.end()) usage_error("id", std::to_string(id), "a study of the list");
  return *found;
}

const StudyJob& StudyJobs::job(int id) const { return const_cast<StudyJobs*>(this)->find(id); }

int StudyJobs::start(std::vector<std::string> words) {
  StudyJob job{.id = next_id_, .words = std::move(words), .folder = fs::current_path().string()};
  for (const StudyJob& other : jobs_)
    if (other.is_running() && other.output() == job.output())
      usage_error("-o", job.output() + ", which another study is writing", "another file");
  run(job, job.words);
  ++next_id_;
  jobs_.insert(jobs_.begin(), std::move(job));
  return jobs_.front().id;
}

void StudyJobs::run(StudyJob& job, const std::vector<std::string>& words) {
  // env, so that nothing of this process changes: its own folder may be another one when a study is resumed.
  std::vector<std::string> argv = {"env", "KVSCOPE_PROGRESS=json", program_};
  if (std::error_code error; fs::is_directory(job.folder, error)) {
    argv.insert(argv.begin() + 1, {"-C", job.folder});
  } else if (!fs::path(value_of(words, "-o")).is_absolute()) {
    throw Error({.code = ExitCode::resource, .file = job.folder, .found = "the folder of this study is gone"});
  }
  argv.insert(argv.end(), words.begin(), words.end());
  processes_.push_back(std::make_unique<Process>(job.id, argv, wake_));
  job.state = StudyJob::State::running;
  job.progress = {.phase = "starting", .text = ""};
  job.message.clear();
  revision_.rise();
}

void StudyJobs::stop(int id) {
  StudyJob& job = find(id);
  for (const auto& process : processes_)
    if (process->id == id) process->child.signal_group(SIGINT);
  if (job.state == StudyJob::State::running) job.state = StudyJob::State::stopping;
  revision_.rise();
}

void StudyJobs::resume(int id) {
  StudyJob& job = find(id);
  if (job.is_running()) usage_error("study", "it is running");
  if (job.state == StudyJob::State::complete) usage_error("study", "it is complete");
  run(job, words_to_resume(job));
}

void StudyJobs::remove(int id) {
  if (find(id).is_running()) usage_error("study", "it is running", "", "stop it first");
  std::erase_if(jobs_, [id](const StudyJob& job) { return job.id == id; });
  revision_.rise();
}

void StudyJobs::take_line(StudyJob& job, const std::string& line) {
  if (line.empty()) return;
  const auto json = line.front() == '{' ? nlohmann::json::parse(line, nullptr, false) : nlohmann::json();
  if (!json.is_object() || !json.contains("phase")) {
    job.message = line.starts_with(kErrorMark) ? line.substr(kErrorMark.size()) : line;
    return messages_.log(job.command() + ": " + line);
  }
  TaskProgress& progress = job.progress;
  const std::string phase = json.value("phase", "");
  if (phase != progress.phase) {
    progress = {
        .phase = phase, .phase_start = std::chrono::steady_clock::now(), .start_value = json.value("value", 0.0)};
  }
  progress.text = json.value("text", "");
  progress.value = json.value("value", 0.0), progress.max = json.value("max", 0.0);
}

void StudyJobs::finish(StudyJob& job, int status) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  const bool was_stopping = job.state == StudyJob::State::stopping;
  job.state = code == 0                            ? StudyJob::State::complete
              : code == kCancelled || was_stopping ? StudyJob::State::stopped
                                                   : StudyJob::State::failed;
  if (job.state == StudyJob::State::failed && job.message.empty()) job.message = describe_wait_status(status);
  const std::string what = job.command() + " " + fs::path(job.output()).filename().string();
  if (job.state != StudyJob::State::failed) return messages_.notify(what + ": " + std::string(to_string(job.state)));
  messages_.add_banner({.kind = Banner::Kind::error,
                        .text = what + " failed: " + job.message,
                        .command = "study.jobs",
                        .button = "Show studies"});
}

void StudyJobs::poll() {
  for (std::size_t i = 0; i < processes_.size();) {
    Process& process = *processes_[i];
    std::vector<std::string> lines;
    bool ended = false;
    {
      const std::lock_guard lock(process.mutex);
      lines.swap(process.lines);
      ended = process.ended;
    }
    StudyJob& job = find(process.id);
    for (const std::string& line : lines) take_line(job, line);
    if (!lines.empty()) revision_.rise();
    const auto status = ended ? process.child.wait(std::chrono::milliseconds(0)) : std::nullopt;
    if (ended && !status) wake_();  // its streams end just before it does
    if (!status) {
      ++i;
      continue;
    }
    finish(job, *status);
    revision_.rise();
    processes_.erase(processes_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void StudyJobs::put_back(std::vector<StudyJob> jobs) {
  for (StudyJob& job : jobs) {
    job.id = next_id_++;
    if (!job.is_running()) continue;
    job.state = StudyJob::State::stopped;
    job.message = "the window ended while it was running";
  }
  jobs_.insert(jobs_.end(), std::make_move_iterator(jobs.begin()), std::make_move_iterator(jobs.end()));
  revision_.rise();
}

}  // namespace kvscope::app
