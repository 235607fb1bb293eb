'use strict';
// What a query sees, counted from the lifetimes. The definitions are those of engine/core/study/measure; tests compare the numbers.

const NEVER = 65535, UNDECIDED = 65534;  // evict_at: kept to the end; still in the window when the run ended

/** The arrays of the page, unpacked. */
async function unpack(data) {
  const arrays = {};
  for (const [name, packed] of Object.entries(data.arrays)) {
    const bytes = Uint8Array.from(atob(packed.deflate), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
    const buffer = await new Response(stream).arrayBuffer();
    arrays[name] = {columns: packed.columns, values: packed.type === 'Uint8' ? new Uint8Array(buffer) : words(buffer)};
  }
  return arrays;
}

/** 16 bits each, the low byte first, on every machine. */
function words(buffer) {
  const view = new DataView(buffer), values = new Uint16Array(buffer.byteLength / 2);
  for (let i = 0; i < values.length; ++i) values[i] = view.getUint16(2 * i, true);
  return values;
}

class Run {
  constructor(data, arrays) {
    Object.assign(this, data);
    this.n_heads = data.n_layers * data.n_kv_heads;
    this.evict_at = arrays.evict_at.values;
    this.verdict = arrays.verdict ? arrays.verdict.values : null;
    this.hits = arrays.hits;
    this.capacity = arrays.capacity;
    if (this.hits) this.sumRecalls();
  }

  visible(head, t, q) { return t <= q && q < this.evict_at[head * this.n_tokens + t]; }

  /** "sink", "window", "kept", "evicted" or "future". */
  state(head, t, q) {
    if (t > q) return 'future';
    if (!this.visible(head, t, q)) return 'evicted';
    if (t < this.head_n_sink[head]) return 'sink';
    return t > q - this.head_window[head] ? 'window' : 'kept';
  }

  /** Heads that hold each token at q, and heads in which the policy had a choice (no sink, not in the window). */
  holders(q) {
    const held = new Uint16Array(this.n_tokens), chosen = new Uint16Array(this.n_tokens);
    for (let head = 0; head < this.n_heads; ++head) {
      const row = head * this.n_tokens, sinks = this.head_n_sink[head], edge = q - this.head_window[head];
      for (let t = 0; t <= q && t < this.n_tokens; ++t) {
        const seen = q < this.evict_at[row + t];
        if (seen) ++held[t];
        if (!seen || (t >= sinks && t <= edge)) ++chosen[t];
      }
    }
    return {held, chosen};
  }

  /** Kept tokens / tokens whose fate is decided, of from <= t <= to; NaN for none. */
  keptShare(head, q, from, to) {
    const row = head * this.n_tokens;
    let kept = 0, all = 0;
    for (let t = from; t <= to && t < this.n_tokens; ++t) {
      const e = this.evict_at[row + t];
      if (e === UNDECIDED && !this.open) continue;
      ++all;
      if (q < e) ++kept;
    }
    return all > 0 ? Math.fround(kept / all) : NaN;
  }

  cacheShare(head, q) {
    let kept = 0;
    for (let t = 0; t <= q; ++t) kept += this.visible(head, t, q);
    return Math.fround(kept / (q + 1));
  }

  /** The value of a head in the map, and its weight in the mean over heads. */
  metric(name, head, q) {
    const edge = q - this.window;
    if (name === 'recall') return [this.recall(head, q), 1];
    if (name === 'mean_recall') return this.meanRecall(head, q);
    if (this.local_by_model[head]) return [NaN, 1];
    if (name === 'density') return [this.keptShare(head, q, 0, edge), 1];
    if (name === 'evict_ratio') return [Math.fround(1 - this.keptShare(head, q, this.n_sink, edge)), 1];
    return [this.cacheShare(head, q), 1];
  }

  /** The last query up to q that the oracle has seen; -1: none. */
  oracleQuery(q) { return Math.min(q, this.hits.columns - 1); }

  recall(head, q) {
    const at = head * this.hits.columns + this.oracleQuery(q), capacity = this.capacity.values[at];
    return capacity > 0 ? Math.fround(this.hits.values[at] / capacity) : NaN;
  }

  meanRecall(head, q) {
    const at = head * this.hits.columns + this.oracleQuery(q), n = this.recallCounts[at];
    return [n > 0 ? Math.fround(this.recallSums[at] / n) : NaN, n];
  }

  /** Sums over the queries up to each one, so that a step of the scrubber costs nothing. */
  sumRecalls() {
    const n = this.hits.columns;
    this.recallSums = new Float64Array(this.n_heads * n);
    this.recallCounts = new Uint32Array(this.n_heads * n);
    for (let head = 0; head < this.n_heads; ++head) {
      let sum = 0, count = 0;
      for (let q = 0; q < n; ++q) {
        const at = head * n + q, capacity = this.capacity.values[at];
        if (capacity > 0) sum += this.hits.values[at] / capacity, ++count;
        this.recallSums[at] = sum;
        this.recallCounts[at] = count;
      }
    }
  }

  /** Tokens of a head in the cache at each query: sinks, others that left the window, window. */
  occupancy(head) {
    const n = this.n_queries, steps = {sink: new Int32Array(n + 1), kept: new Int32Array(n + 1), window: new Int32Array(n + 1)};
    const add = (name, from, to) => {
      to = Math.min(to, n);
      if (from < to) ++steps[name][from], --steps[name][to];
    };
    for (let t = 0; t < Math.min(n, this.n_tokens); ++t) {
      const gone = this.evict_at[head * this.n_tokens + t], out = t + this.head_window[head];
      if (t < this.head_n_sink[head]) {
        add('sink', t, gone);
      } else {
        add('window', t, Math.min(out, gone));
        add('kept', out, gone);
      }
    }
    for (const counts of Object.values(steps)) {
      for (let q = 1; q < n; ++q) counts[q] += counts[q - 1];
    }
    return steps;
  }

  judged(code) { return code !== 255; }
  wrong(code) { return code === 1 || code === 3; }

  /** Judged and wrong evictions up to q: of all heads, of one, and for each token its heads and the first query. */
  wrongEvictions(chosenHead, q) {
    const result = {judged: 0, wrong: 0, headJudged: 0, headWrong: 0};
    result.heads = new Uint16Array(this.n_tokens);
    result.first = new Uint16Array(this.n_tokens).fill(NEVER);
    for (let head = 0; head < this.n_heads; ++head) {
      for (let t = 0; t < this.n_tokens; ++t) {
        const at = head * this.n_tokens + t, code = this.verdict[at];
        if (this.evict_at[at] > q || !this.judged(code)) continue;
        ++result.judged;
        if (head === chosenHead) ++result.headJudged;
        if (!this.wrong(code)) continue;
        ++result.wrong;
        ++result.heads[t];
        result.first[t] = Math.min(result.first[t], this.evict_at[at]);
        if (head === chosenHead) ++result.headWrong;
      }
    }
    return result;
  }
}
