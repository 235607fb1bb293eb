// The page: what is chosen, what is shown of it, keys and mouse. The address after # holds the choice, so that a link shows it again.

const byId = id => document.getElementById(id);

function option(value, text) {
  const element = document.createElement('option');
  element.value = value;
  element.textContent = text;
  return element;
}

function swatch(colour, text, kind = '') {
  const entry = document.createElement('span'), mark = document.createElement('span');
  mark.className = 'swatch ' + kind;
  if (colour) mark.style.backgroundColor = colour;
  entry.append(mark, text);
  return entry;
}

/** At most four significant digits, as the window has them. */
function brief(value) { return Number.isNaN(value) ? 'no value' : String(Number(value.toPrecision(4))); }

class Page {
  constructor(run) {
    this.run = run;
    this.chosen = {q: run.n_queries - 1, layer: 0, head: 0, token: -1, metric: this.telling(), colour: 'heads'};
    this.readAddress();
    this.playing = false;
    this.buildControls();
    this.buildStrip();
    this.buildMap();
    byId('views').hidden = false;
    this.pictures = new HeadPictures(run, byId('lifetimes'), byId('cache'));
    this.keys = new Keys(this);
    this.show();
    document.body.dataset.ready = 'true';
  }

  get head() { return this.chosen.layer * this.run.n_kv_heads + this.chosen.head; }

  /** The first metric in which heads differ at the end: a map of one colour shows nothing. */
  telling() {
    const run = this.run, heads = [...Array(run.n_heads).keys()];
    const differs = metric => {
      const values = heads.map(head => run.metric(metric.name, head, run.n_queries - 1)[0]).filter(value => !Number.isNaN(value));
      return values.some(value => value !== values[0]);
    };
    return (run.metrics.find(differs) || run.metrics[0]).name;
  }

  readAddress() {
    const run = this.run, given = new URLSearchParams(location.hash.slice(1));
    const limits = {q: run.n_queries, layer: run.n_layers, head: run.n_kv_heads, token: run.n_tokens};
    for (const [key, end] of Object.entries(limits)) {
      const value = Number.parseInt(given.get(key), 10);
      if (value >= 0 && value < end) this.chosen[key] = value;
    }
    if (run.metrics.some(metric => metric.name === given.get('metric'))) this.chosen.metric = given.get('metric');
    if (this.colours().some(([name]) => name === given.get('colour'))) this.chosen.colour = given.get('colour');
  }

  writeAddress() {
    try {
      history.replaceState(null, '', '#' + new URLSearchParams(this.chosen));
    } catch { /* some browsers allow only so many a minute */ }
  }

  /** What the strip can be coloured by. */
  colours() {
    const modes = [['heads', 'Heads keeping'], ['state', 'State in the chosen head']];
    return this.run.verdict ? [...modes, ['wrong', 'Wrong evictions']] : modes;
  }

  buildControls() {
    const run = this.run;
    byId('query').max = run.n_queries - 1;
    for (let layer = 0; layer < run.n_layers; ++layer) byId('layer').append(option(layer, layer));
    for (let head = 0; head < run.n_kv_heads; ++head) byId('head').append(option(head, head));
    for (const metric of run.metrics) byId('metric').append(option(metric.name, metric.title));
    for (const [name, title] of this.colours()) byId('colour').append(option(name, title));
    const stops = [];
    for (let i = 0; i < 256; i += 15) stops.push(this.colour(i / 255));
    byId('scale').style.background = `linear-gradient(90deg, ${stops.join(',')})`;
    byId('verdicts').hidden = !run.verdict;
    for (const name of Object.keys(run.states)) byId('timeline-legend').append(this.stateSwatch(name));
    if (run.verdict) byId('timeline-legend').append(swatch('var(--wrong)', 'wrong eviction'));
  }

  stateSwatch(name, chip = '') {
    const entry = swatch(`var(--${name}${chip})`, name, name === 'evicted' && chip ? 'struck' : '');
    entry.title = this.run.states[name];
    return entry;
  }

  /** Of viridis, as the window's maps have it. */
  entry(share) { return Math.max(0, Math.min(255, Math.floor(share * 256))); }
  colour(share) { return '#' + this.run.colours.substr(6 * this.entry(share), 6); }
  ink(share) { return this.run.inks[this.entry(share)] === 'w' ? '#ffffff' : '#111111'; }

  buildStrip() {
    const ends = new Set(this.run.line_ends), parts = document.createDocumentFragment();
    this.spans = this.run.tokens.map((text, t) => {
      const span = document.createElement('span');
      span.textContent = text;
      span.id = 't' + t;
      span.setAttribute('role', 'option');
      if (t > 0 && t === this.run.prompt_len) span.classList.add('answer-begins');
      parts.append(span);
      if (ends.has(t)) parts.append(document.createElement('br'));
      return span;
    });
    byId('strip').append(parts);
    this.drawn = new Array(this.spans.length).fill('');
  }

  buildMap() {
    const run = this.run, top = document.createElement('tr'), body = document.createElement('tbody');
    const header = (text, scope) => Object.assign(document.createElement('th'), {textContent: text, scope});
    top.append(header('Layer', 'col'));
    for (let head = 0; head < run.n_kv_heads; ++head) top.append(header('KV ' + head, 'col'));
    this.cells = [];
    this.drawnCells = [];
    for (let layer = 0; layer < run.n_layers; ++layer) {
      const row = document.createElement('tr');
      row.append(header(layer, 'row'));
      for (let head = 0; head < run.n_kv_heads; ++head) {
        const cell = document.createElement('td');
        Object.assign(cell.dataset, {layer, head});
        row.append(cell);
        this.cells.push(cell);
      }
      body.append(row);
    }
    const head = document.createElement('thead');
    head.append(top);
    byId('map').append(head, body);
  }

  choose(change) {
    Object.assign(this.chosen, change);
    this.show();
  }

  show() {
    const {q, layer, head, metric, colour} = this.chosen, run = this.run;
    byId('query').value = q;
    byId('query').setAttribute('aria-valuetext', `query ${q} of ${run.n_queries - 1}`);
    byId('query-number').textContent = `${q} of ${run.n_queries - 1}`;
    Object.assign(byId('layer'), {value: layer});
    Object.assign(byId('head'), {value: head});
    Object.assign(byId('metric'), {value: metric});
    Object.assign(byId('colour'), {value: colour});
    Object.assign(document.body.dataset, {q, layer, head, metric, colour});
    this.held = run.holders(q);
    this.wrong = run.verdict ? run.wrongEvictions(this.head, q) : null;
    this.showStrip();
    this.showToken();
    this.showMap();
    this.showHead();
    if (this.wrong) this.showVerdicts();
    if (!this.playing) this.writeAddress();
  }

  /** Of a token: its number or state, background, ink and classes. */
  look(t, most) {
    const {q, colour} = this.chosen, run = this.run;
    if (t > q) return ['', '', '', 'future'];
    if (colour === 'state') {
      const state = run.state(this.head, t, q);
      return [state, `var(--${state}-chip)`, `var(--${state}-ink)`, state === 'evicted' ? 'struck' : ''];
    }
    if (colour === 'heads') {
      const n = this.held.held[t], share = n / run.n_heads;
      return this.held.chosen[t] === 0 ? [n, '', '', 'outlined'] : [n, this.colour(share), this.ink(share), ''];
    }
    const n = this.wrong.heads[t], percent = Math.round(100 * n / most);
    if (n === 0) return [0, '', '', ''];
    return [n, `color-mix(in srgb, var(--wrong-chip) ${percent}%, var(--panel))`, percent > 55 ? 'var(--wrong-ink)' : '', ''];
  }

  showStrip() {
    const {q, colour, layer, head, token} = this.chosen, run = this.run;
    const most = colour === 'wrong' ? Math.max(1, ...this.wrong.heads) : 1;
    this.spans.forEach((span, t) => {
      const [value, background, ink, kind] = this.look(t, most), key = value + background + kind;
      if (this.drawn[t] === key) return;
      this.drawn[t] = key;
      span.style.background = background;
      span.style.color = ink;
      for (const name of ['future', 'outlined', 'struck']) span.classList.toggle(name, kind === name);
      span.dataset.n = value;
    });
    const titles = {
      heads: `KV heads keeping each token, of ${run.n_heads}, at query ${q}`,
      state: `State of each token in layer ${layer}, KV head ${head}, at query ${q}`,
      wrong: `Heads that evicted each token wrongly, up to query ${q}`,
    };
    byId('strip-title').textContent = titles[colour];
    this.showStripLegend(most);
    if (token >= 0) byId('strip').setAttribute('aria-activedescendant', 't' + token);
    if (this.marked) this.marked.classList.remove('chosen');
    this.marked = this.spans[token];
    if (this.marked) this.marked.classList.add('chosen');
  }

  showStripLegend(most) {
    const {colour} = this.chosen, n = this.run.n_heads;
    let entries = [];
    if (colour === 'state') entries = Object.keys(this.run.states).map(name => this.stateSwatch(name, '-chip'));
    if (colour === 'wrong') entries = [swatch('var(--wrong-chip)', most + ' heads'), swatch('var(--panel)', 'none', 'outlined')];
    if (colour === 'heads') {
      entries = [0, 0.25, 0.5, 0.75, 1].map(share => swatch(this.colour(share), `${Math.round(share * n)} of ${n}`));
      entries.push(swatch('', 'always kept: sinks and window', 'outlined'));
    }
    byId('strip-legend').replaceChildren(...entries, swatch('var(--accent)', 'the answer begins'));
  }

  showToken() {
    const {q, token: t, layer, head} = this.chosen, run = this.run;
    if (t < 0) return;
    const state = run.state(this.head, t, q), e = run.evict_at[this.head * run.n_tokens + t];
    const fate = e === NEVER ? 'kept to the end' : e === UNDECIDED ? 'still in the window at the end' : `evicted at query ${e}`;
    let text = `Token ${t} "${run.tokens[t]}": in ${this.held.held[t]} of ${run.n_heads} heads at query ${q}. ` +
               `Layer ${layer}, KV head ${head}: ${state === 'evicted' ? fate : state + ', ' + fate}`;
    const code = run.verdict && run.verdict[this.head * run.n_tokens + t];
    if (run.verdict && run.judged(code)) text += run.wrong(code) ? ', wrongly (the oracle would have kept it)' : ', rightly (the oracle agrees)';
    byId('token').textContent = text + '.';
    Object.assign(byId('token').dataset, {token: t, held: this.held.held[t], state});
  }

  showMap() {
    const {q, metric} = this.chosen, run = this.run, info = run.metrics.find(m => m.name === metric);
    byId('map-title').textContent = `${info.title}, layers × KV heads`;
    byId('definition').textContent = info.definition + '.';
    document.querySelector('label[for=metric]').title = info.definition;
    let sum = 0, weights = 0;
    this.cells.forEach((cell, i) => {
      const [value, weight] = run.metric(metric, i, q), none = Number.isNaN(value);
      if (!none) sum += weight * value, weights += weight;
      cell.setAttribute('aria-selected', i === this.head);
      cell.tabIndex = i === this.head ? 0 : -1;
      const key = metric + value;
      if (this.drawnCells[i] === key) return;
      this.drawnCells[i] = key;
      cell.dataset.value = none ? '' : value;
      cell.textContent = none ? '–' : value.toFixed(2);
      cell.classList.toggle('none', none);
      cell.style.background = none ? '' : this.colour(value);
      cell.style.color = none ? '' : this.ink(value);
      cell.title = `Layer ${cell.dataset.layer}, KV head ${cell.dataset.head}: ${info.title} ${brief(value)}. ${info.definition}`;
      cell.setAttribute('aria-label', `layer ${cell.dataset.layer}, KV head ${cell.dataset.head}: ${brief(value)}`);
    });
    const mean = weights > 0 ? sum / weights : NaN;
    byId('mean').textContent = `Mean over heads: ${brief(mean)}`;
    byId('mean').dataset.value = weights > 0 ? mean : '';
  }

  showHead() {
    const {q, layer, head} = this.chosen;
    byId('timeline-title').textContent = `Lifetimes in layer ${layer}, KV head ${head}`;
    this.pictures.draw(this.head, q);
    const counts = this.pictures.occupancy, sink = counts.sink[q], kept = counts.kept[q], newest = counts.window[q];
    byId('occupancy').textContent = `Each token (vertical) at each query (horizontal). In the cache at query ${q}: ` +
        `${sink + kept + newest} of ${q + 1} tokens (${sink} sinks, ${kept} kept, ${newest} in the window).`;
    Object.assign(byId('occupancy').dataset, {sink, kept, window: newest});
  }

  showVerdicts() {
    const {q, layer, head} = this.chosen, {judged, wrong, headJudged, headWrong, heads, first} = this.wrong;
    const share = (part, whole) => whole > 0 ? `${part} of ${whole} judged (${(100 * part / whole).toFixed(1)} %)` : 'none judged';
    byId('wrong').textContent = `All heads: ${share(wrong, judged)}. Layer ${layer}, KV head ${head}: ${share(headWrong, headJudged)}.`;
    Object.assign(byId('wrong').dataset, {q, wrong, judged, headWrong, headJudged});
    const worst = [...heads.keys()].filter(t => heads[t] > 0).sort((a, b) => heads[b] - heads[a] || a - b).slice(0, 12);
    byId('worst').hidden = worst.length === 0;
    byId('worst').tBodies[0].replaceChildren(...worst.map(t => {
      const row = document.createElement('tr'), button = document.createElement('button');
      button.type = 'button';
      button.textContent = t;
      button.setAttribute('aria-label', 'show token ' + t);
      button.addEventListener('click', () => {
        this.choose({token: t});
        this.spans[t].scrollIntoView({block: 'nearest'});
      });
      for (const content of [button, this.run.tokens[t], `${heads[t]} of ${this.run.n_heads}`, first[t]]) {
        const cell = document.createElement('td');
        cell.append(content);
        row.append(cell);
      }
      return row;
    }));
  }
}

const data = JSON.parse(byId('run').textContent);
unpack(data).then(arrays => new Page(new Run(data, arrays))).catch(error => {
  byId('problem').textContent = `The views cannot be shown (${error.message}). They need a browser of 2023 or later.`;
  byId('problem').hidden = false;
});
