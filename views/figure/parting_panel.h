#pragma once
// Where two answers diverge: the probabilities of both tokens in both runs, and the tokens that one cache had lost.

#include "views/figure/answer_difference.h"
#include "views/figure/figure_builder.h"

namespace kvscope::views {

/// What the panels are about. lost: null while it is being counted.
struct PartingNumbers {
  const RunRecord &a, &b;
  const ComparedAnswers& answers;
  const LostOfBoth* lost;
  const AnswerDifferenceOptions& options;
};

double title_height(const FigureStyle& style);
double row_height(const FigureStyle& style);

/// A bar for each token and run, from 0 to 1: filled if the run recorded the probability, else a dashed one of the most that it can
/// be. Panel "choices". Nothing unless the answers diverge.
double choices_height(const FigureStyle& style);
void draw_choices(FigureBuilder& b, Box box, const PartingNumbers& numbers);

/// What a run (0: A, 1: B) had lost: a row for each token, as many as there is room for, with the heads and the mass, and a bar of
/// what ranks them. Panels "lost.a" and "lost.a.0" ..., or "lost.b".
void draw_lost(FigureBuilder& b, Box box, const PartingNumbers& numbers, int run);
/// The rows that it needs, of A's list and of B's; 0 where the caches are not compared.
std::array<int, 2> lost_rows(const PartingNumbers& numbers);

}  // namespace kvscope::views
