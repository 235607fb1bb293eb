// The two pictures of one head: lifetimes (x = query, y = token, token 0 at the bottom) and how many tokens are in the cache.

const LEFT = 44, BELOW = 18;  // CSS pixels for the numbers of the axes

function cssColour(name) { return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim(); }

function rgb(hex) { return [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)); }

/** Steps of 1, 2 or 5 times a power of ten, at most `most` of them. */
function roundNumbers(end, most) {
  let step = 1;
  for (let i = 0; end / step > most; ++i) step = [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3);
  const numbers = [];
  for (let v = 0; v < end; v += step) numbers.push(v);
  return numbers;
}

/** A canvas in device pixels, with a context that counts in CSS pixels. Measuring makes the browser lay the page out. */
function prepared(canvas) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const box = {x: LEFT, y: 6, w: Math.max(10, width - LEFT - 12), h: Math.max(10, height - 6 - BELOW)};
  const still = document.createElement('canvas');  // all but the line of the query
  still.width = canvas.width, still.height = canvas.height;
  const context = still.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.font = '11px Inter, system-ui, sans-serif';
  return {canvas, still, context, scale, box};
}

class HeadPictures {
  constructor(run, lifetimes, cache) {
    this.run = run;
    this.canvases = [lifetimes, cache];
    this.head = -1;
  }

  /** Colours or sizes are others. */
  forget() { this.head = -1; }

  draw(head, q) {
    if (head !== this.head) {
      this.head = head;
      this.occupancy = this.run.occupancy(head);
      this.pictures = this.canvases.map(prepared);
      this.ink = cssColour('text');
      this.drawLifetimes(this.pictures[0]);
      this.drawCache(this.pictures[1]);
    }
    for (const picture of this.pictures) this.show(picture, q);
  }

  /** The picture, and the line of the query over it. */
  show({canvas, still, scale, box}, q) {
    const context = canvas.getContext('2d'), x = box.x + (q + 0.5) / this.run.n_queries * box.w;
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(still, 0, 0);
    context.fillStyle = this.ink;
    context.fillRect(Math.round((x - 0.75) * scale), box.y * scale, 1.5 * scale, box.h * scale);
  }

  queryAt(canvas, x) {
    const {box} = this.pictures.find(picture => picture.canvas === canvas);
    return Math.max(0, Math.min(this.run.n_queries - 1, Math.floor((x - box.x) / box.w * this.run.n_queries)));
  }

  /** A row of several tokens has the mean colour of its tokens. */
  lifetimePicture(scale, box) {
    const run = this.run, n = run.n_queries, tokens = run.n_tokens;
    const w = Math.max(1, Math.min(n, Math.round(box.w * scale))), h = Math.max(1, Math.min(tokens, Math.round(box.h * scale)));
    const colours = {};
    for (const name of ['sink', 'window', 'kept', 'evicted']) colours[name] = rgb(cssColour(name));
    colours.future = rgb(cssColour('panel'));
    const sums = new Float32Array(w * h * 3), counts = new Uint16Array(h);
    for (let t = 0; t < tokens; ++t) {
      const row = h - 1 - Math.floor(t * h / tokens);
      ++counts[row];
      for (let x = 0; x < w; ++x) {
        const colour = colours[run.state(this.head, t, Math.floor((x + 0.5) * n / w))], at = (row * w + x) * 3;
        sums[at] += colour[0], sums[at + 1] += colour[1], sums[at + 2] += colour[2];
      }
    }
    const image = new ImageData(w, h);
    for (let i = 0; i < w * h; ++i) {
      const count = counts[Math.floor(i / w)];
      for (let c = 0; c < 3; ++c) image.data[4 * i + c] = Math.round(sums[3 * i + c] / count);
      image.data[4 * i + 3] = 255;
    }
    const picture = document.createElement('canvas');
    picture.width = w, picture.height = h;
    picture.getContext('2d').putImageData(image, 0, 0);
    return picture;
  }

  drawLifetimes({context, scale, box}) {
    const run = this.run;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.lifetimePicture(scale, box), box.x, box.y, box.w, box.h);
    if (run.verdict) {
      context.fillStyle = cssColour('wrong');
      for (let t = 0; t < run.n_tokens; ++t) {
        const at = this.head * run.n_tokens + t;
        if (!run.wrong(run.verdict[at]) || run.evict_at[at] >= run.n_queries) continue;
        const x = box.x + run.evict_at[at] / run.n_queries * box.w, y = box.y + box.h - (t + 0.5) / run.n_tokens * box.h;
        context.fillRect(x - 1, y - 1, 2.5, 2.5);
      }
    }
    this.axes(context, box, roundNumbers(run.n_tokens, box.h / 44), run.n_tokens);
  }

  drawCache({context, box}) {
    const {sink, kept, window: newest} = this.occupancy, n = this.run.n_queries;
    let top = 1;
    for (let i = 0; i < n; ++i) top = Math.max(top, sink[i] + kept[i] + newest[i]);
    top *= 1.08;
    const area = (colour, below, above) => {
      context.fillStyle = cssColour(colour);
      context.beginPath();
      const point = (i, value) => context.lineTo(box.x + (i + 0.5) / n * box.w, box.y + box.h - value / top * box.h);
      for (let i = 0; i < n; ++i) point(i, above(i));
      for (let i = n - 1; i >= 0; --i) point(i, below(i));
      context.fill();
    };
    area('sink', () => 0, i => sink[i]);
    area('kept', i => sink[i], i => sink[i] + kept[i]);
    area('window', i => sink[i] + kept[i], i => sink[i] + kept[i] + newest[i]);
    this.axes(context, box, roundNumbers(top, 4), top);
  }

  axes(context, box, numbers, top) {
    context.strokeStyle = cssColour('line');
    context.strokeRect(box.x, box.y, box.w, box.h);
    context.fillStyle = cssColour('muted');
    context.textAlign = 'right', context.textBaseline = 'middle';
    for (const v of numbers) context.fillText(v, box.x - 5, box.y + box.h - v / top * box.h);
    context.textAlign = 'center', context.textBaseline = 'top';
    for (const v of roundNumbers(this.run.n_queries, box.w / 70))
      context.fillText(v, box.x + (v + 0.5) / this.run.n_queries * box.w, box.y + box.h + 4);
  }
}
