#include "app/workspace/notes_keeper.h"

#include <algorithm>
#include <utility>

namespace kvscope::app {
namespace {

bool has_trace(const RunEntry& entry) { return !entry.trace_path.empty(); }

bool same_entry(const RunEntry& a, const RunEntry& b) {
  return a.id == b.id && a.run == b.run && a.trace_path == b.trace_path && a.name == b.name;
}

}  // namespace

bool NotesKeeper::is_seen() const {
  const views::Selection& selection = session_.selection();
  if (selection.pins != seen_.pins || selection.run_notes != seen_.notes) return false;
  auto seen = seen_.runs.begin();
  for (const RunEntry& entry : session_.runs().all()) {
    if (!has_trace(entry)) continue;
    if (seen == seen_.runs.end() || !same_entry(entry, *seen)) return false;
    ++seen;
  }
  return seen == seen_.runs.end();
}

bool NotesKeeper::idle() const {
  const bool at_work =
      std::ranges::any_of(traces_, [](const auto& one) { return one.second.reading || one.second.writing; });
  return is_seen() && !behind_ && !at_work;
}

void NotesKeeper::poll(bool due) {
  if (!is_seen()) {
    seen_ = {session_.selection().pins, session_.selection().run_notes, {}};
    std::ranges::copy_if(session_.runs().all(), std::back_inserter(seen_.runs), has_trace);
    behind_ = true;
    for (const RunEntry& entry : session_.runs().all()) look_at(entry);
  }
  if (!behind_ || !due) return;
  behind_ = false;
  for (auto& [path, trace] : traces_) {
    if (trace.reading || trace.writing) {
      behind_ = true;
    } else if (!trace.given_up) {
      write(path, trace);
    }
  }
}

void NotesKeeper::look_at(const RunEntry& entry) {
  const auto known = paths_.find(entry.id);
  const bool moved = known != paths_.end() && known->second != entry.trace_path;
  if (moved && has_trace(entry)) saved_.insert(entry.id);
  paths_[entry.id] = entry.trace_path;
  if (!has_trace(entry)) return;
  for (auto& [path, trace] : traces_) {
    if (path != entry.trace_path) trace.runs.erase(entry.id);
  }
  Trace& trace = traces_[entry.trace_path];
  if (!trace.runs.contains(entry.id) && !trace.reading) read(entry.trace_path);
}

void NotesKeeper::warn(const std::string& text) {
  session_.messages().add_banner({.kind = Banner::Kind::warning, .text = text});
  session_.messages().log(text);
}

// ------------------------------------------------------------------------------------------------ what is there

void NotesKeeper::read(const std::string& path) {
  traces_[path].reading = true;
  worker_.post(
      [this, path]() -> Worker::Finish {
        std::vector<RunNotes> file = read_notes(path);
        return [this, path, file = std::move(file)] { take(path, file); };
      },
      [this, path](const std::string& text) {
        Trace& trace = traces_[path];
        const bool told = std::exchange(trace.given_up, true);
        if (!told) warn("This trace's notes file was not read and is left unchanged: " + text);
        for (const RunEntry& entry : session_.runs().all()) {
          if (entry.trace_path == path) trace.runs.insert(entry.id);
        }
        trace.reading = false;
      });
}

void NotesKeeper::take(const std::string& path, const std::vector<RunNotes>& file) {
  Trace& trace = traces_[path];
  trace.reading = trace.given_up = false;
  std::vector<std::pair<const RunEntry*, RunNotes>> come;
  for (const RunEntry& entry : session_.runs().all()) {
    if (entry.trace_path == path && trace.runs.insert(entry.id).second)
      come.emplace_back(&entry, take_run(entry, file));
  }
  for (const auto& [entry, in_file] : come) {
    // Of a run that was saved here what the file does not have is to be written; of others only what changes from now on.
    const RunNotes notes = entry->own || saved_.contains(entry->id) ? in_file : notes_of(*entry);
    if (std::ranges::none_of(trace.known, [&](const RunNotes& other) { return same_run(other, notes); }))
      trace.known.push_back(notes);
  }
  behind_ = true;
}

RunNotes NotesKeeper::take_run(const RunEntry& entry, const std::vector<RunNotes>& file) {
  RunNotes none{.run = entry.trace_run, .ids = ids_hash(*entry.run), .name = "", .note = "", .pins = {}};
  const auto in_place = std::ranges::find(file, entry.trace_run, &RunNotes::run);
  const auto it =
      std::ranges::find_if(file, [&](const RunNotes& notes) { return notes.run == none.run && notes.ids == none.ids; });
  if (it == file.end()) {
    if (in_place != file.end() && !saved_.contains(entry.id))
      warn("The notes file of " + entry.trace_path +
           " is for runs that the trace no longer has. It is left unchanged.");
    return none;
  }
  int dropped = 0;
  undo_.amend_selection([&](views::Selection& selection) {
    dropped = merge_pins(selection.pins, *entry.run, it->pins);
    if (!it->note.empty()) selection.run_notes[entry.id] = it->note;
  });
  if (!it->name.empty()) session_.runs().rename(entry.id, it->name);
  if (dropped > 0)
    warn(std::to_string(dropped) + " pins of " + entry.trace_path +
         " are not shown, because this text already has its eight pins. They stay in the file until you change a pin.");
  return *it;
}

// ------------------------------------------------------------------------------------------------ what has changed

RunNotes NotesKeeper::notes_of(const RunEntry& entry) const {
  const views::Selection& selection = session_.selection();
  RunNotes notes{.run = entry.trace_run, .ids = ids_hash(*entry.run), .name = entry.name, .note = "", .pins = {}};
  if (const auto note = selection.run_notes.find(entry.id); note != selection.run_notes.end())
    notes.note = note->second;
  for (PlacedPin& placed : placed_pins(selection.pins, *entry.run)) {
    if (placed.place == PinPlace::here) notes.pins.push_back(std::move(placed.pin));
  }
  for (Pin& pin : notes.pins) pin.tokens = 0;  // which the file does not have
  return notes;
}

// A trace that was opened twice has two entries of each run: the one that a person has changed counts.
std::vector<RunNotes> NotesKeeper::notes_of(const std::string& path, const Trace& trace) const {
  std::vector<RunNotes> all;
  for (const RunEntry& entry : session_.runs().all()) {
    if (entry.trace_path != path || !trace.runs.contains(entry.id)) continue;
    RunNotes notes = notes_of(entry);
    const auto same = std::ranges::find_if(all, [&](const RunNotes& other) { return same_run(other, notes); });
    if (same == all.end()) {
      all.push_back(std::move(notes));
    } else if (std::ranges::count(trace.known, notes) == 0) {
      *same = std::move(notes);
    }
  }
  std::ranges::stable_sort(all, {}, &RunNotes::run);
  return all;
}

void NotesKeeper::write(const std::string& path, Trace& trace) {
  std::vector<RunNotes> changed = notes_of(path, trace);
  std::erase_if(changed, [&](const RunNotes& notes) { return std::ranges::count(trace.known, notes) > 0; });
  for (const RunNotes& notes : changed) {  // those of runs that are off the list stay known: they may come back
    std::erase_if(trace.known, [&](const RunNotes& other) { return same_run(other, notes); });
    trace.known.push_back(notes);
  }
  if (changed.empty() || !writes_) return;
  trace.writing = true;
  worker_.post(
      [this, path, changed = std::move(changed)]() -> Worker::Finish {
        update_notes(path, changed);
        return [this, path] { traces_[path].writing = false; };
      },
      [this, path](const std::string& text) {
        Trace& failed = traces_[path];
        failed.writing = false, failed.given_up = true;
        warn("The notes are saved in the workspace, not next to their trace: " + text);
      });
}

}  // namespace kvscope::app
