// Mouse, keys and playing: what they choose, the page shows.

class Keys {
  constructor(page) {
    this.page = page;
    this.listen();
    document.addEventListener('keydown', event => {
      if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest('select')) return;
      if (this.key(event)) event.preventDefault();
    });
  }

  /** A whole run takes at most 20 seconds; from its end it begins again. */
  play(on = !this.page.playing) {
    const {page} = this;
    if (on === page.playing) return;
    page.playing = on;
    byId('play').textContent = on ? 'Pause' : 'Play';
    byId('play').setAttribute('aria-pressed', on);
    if (!on) return page.writeAddress();
    const end = page.run.n_queries - 1, from = page.chosen.q >= end ? 0 : page.chosen.q;
    const began = performance.now(), rate = Math.max(10, end / 20) / 1000;  // queries a millisecond
    const frame = now => {
      if (!page.playing) return;
      const q = Math.min(end, from + Math.floor(Math.max(0, now - began) * rate));
      if (q !== page.chosen.q) page.choose({q});
      if (q < end) requestAnimationFrame(frame);
      else this.play(false);
    };
    requestAnimationFrame(frame);
  }

  scrub(q) {
    this.play(false);
    this.page.choose({q});
  }

  listen() {
    const {page} = this;
    byId('play').addEventListener('click', () => this.play());
    byId('query').addEventListener('input', event => this.scrub(Number(event.target.value)));
    for (const name of ['layer', 'head'])
      byId(name).addEventListener('change', event => page.choose({[name]: Number(event.target.value)}));
    for (const name of ['metric', 'colour'])
      byId(name).addEventListener('change', event => page.choose({[name]: event.target.value}));
    byId('strip').addEventListener('click', event => {
      const span = event.target.closest('span[id]');
      if (span) page.choose({token: Number(span.id.slice(1))});
    });
    byId('map').addEventListener('click', event => {
      const cell = event.target.closest('td');
      if (cell) page.choose({layer: Number(cell.dataset.layer), head: Number(cell.dataset.head)});
    });
    for (const canvas of [byId('lifetimes'), byId('cache')]) {
      const scrub = event => {
        if (event.buttons & 1) this.scrub(page.pictures.queryAt(canvas, event.offsetX));
      };
      canvas.addEventListener('pointerdown', scrub);
      canvas.addEventListener('pointermove', scrub);
    }
    const redraw = () => {
      page.pictures.forget();
      page.showHead();
    };
    window.addEventListener('resize', redraw);
    window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  }

  /** Whether the key meant something here. */
  key(event) {
    const {page} = this, by = {ArrowLeft: -1, ArrowRight: 1}[event.key], at = event.target;
    if (at.closest('#map') && this.keyInMap(event.key)) return true;
    if (at.closest('#strip') && by) {
      page.choose({token: Math.max(0, Math.min(page.run.n_tokens - 1, page.chosen.token + by))});
      page.spans[page.chosen.token].scrollIntoView({block: 'nearest'});
      return true;
    }
    if (by) {
      const q = page.chosen.q + by * (event.shiftKey ? 10 : 1);
      this.scrub(Math.max(0, Math.min(page.run.n_queries - 1, q)));
      return true;
    }
    if (event.key !== ' ' || at.closest('button')) return false;
    this.play();
    return true;
  }

  /** Arrow keys go from head to head. */
  keyInMap(key) {
    const {page} = this, {layer, head} = page.chosen;
    const steps = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[key];
    if (!steps) return false;
    const within = (value, end) => Math.max(0, Math.min(end - 1, value));
    page.choose({layer: within(layer + steps[0], page.run.n_layers), head: within(head + steps[1], page.run.n_kv_heads)});
    page.cells[page.head].focus();
    return true;
  }
}

