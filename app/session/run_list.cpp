#include "app/session/run_list.h"

#include <algorithm>

#include "app/session/run_titles.h"

namespace kvscope::app {

RunList::RunList(const Runs& runs, RunSummaries& summaries, const Revision& revision)
    : runs_(runs), revision_(revision) {
  list_.measures = [&runs, &summaries](int id) -> const RunMeasures* {
    const RunEntry* entry = runs.find(id);
    const RunSummary* summary = entry == nullptr ? nullptr : summaries.of(*entry);
    return summary == nullptr ? nullptr : &summary->measures;
  };
}

const views::ListedRuns& RunList::now() {
  if (list_.all != nullptr && known_ == revision_.value) return list_;
  known_ = revision_.value;
  std::vector<RunEntry> with_row;
  std::ranges::copy_if(runs_.all(), std::back_inserter(with_row), has_row);
  std::map<int, RunTitle> titles = run_titles(with_row);
  auto all = std::make_shared<std::vector<views::ListedRun>>();
  for (const RunEntry& entry : with_row) {
    RunTitle& title = titles[entry.id];
    all->push_back({entry.id, entry.run, entry.revision, std::move(title.text), std::move(title.hint)});
  }
  list_.all = std::move(all);
  list_.a = runs_.a_id(), list_.b = runs_.b_id();
  return list_;
}

views::ListedRun RunList::of(int id) { return *std::ranges::find(*now().all, id, &views::ListedRun::id); }

}  // namespace kvscope::app
