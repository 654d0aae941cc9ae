// The map of a graph: tiles of points or of density on a canvas, moved by mouse, touch and keys, and told
// as a table and in words for who does not see it. Nothing moves by itself.
"use strict";

(() => {
  const TILE = 512; // pixels a tile is drawn at, or up to half as much again
  const NEAR = 12; // pixels
  const KEPT = 400; // tiles
  const PALETTE = 10; // colors, as of class_colors.py
  const GRAIN = 4; // pixels a side that a cell is painted with
  const PICTURES = 32; // of tiles, kept
  // the pixels of a cell from its middle outwards, to be filled with the class that stands out
  const OUTWARDS = [5, 10, 6, 9, 1, 14, 4, 11, 2, 13, 7, 8, 0, 15, 3, 12];
  const NAMED = 12; // classes in the legend, and with their name on the map
  const ROWS = 20;
  const POLL = 1000;
  const REGIONS = [
    "top left", "top", "top right", "left", "middle", "right", "bottom left", "bottom", "bottom right",
  ];

  const number = new Intl.NumberFormat("en");
  const percent = (part) => `${Math.round(100 * part)} %`;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  function element(name, content, attributes = {}) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...[content].flat());
    return made;
  }

  // ------------------------------------------------------------------------------------ tiles
  // docs: GET /v1/graphs/{graph}/map/tiles/{z}/{x}/{y}
  function decode(buffer) {
    const [format, nNodes, side, n, nameBytes] = new Uint32Array(buffer, 0, 8);
    if (format !== 2) throw new Error(`unknown tile format ${format}`);
    let at = 32;
    const take = (Type, length) => {
      const array = new Type(buffer, at, length);
      at += array.byteLength;
      return array;
    };
    const cells = side * side;
    const tile = {
      nNodes, side, n,
      count: take(Uint32Array, cells),
      score: take(Float32Array, n),
      end: take(Uint32Array, n),
      x: take(Uint16Array, n),
      y: take(Uint16Array, n),
      color: take(Int16Array, n),
      winner: take(Int16Array, cells),
      standout: take(Int16Array, cells),
      share: take(Uint8Array, cells),
      standoutShare: take(Uint8Array, cells),
      doubt: take(Uint8Array, n),
      labeled: take(Uint8Array, n),
    };
    const names = take(Uint8Array, nameBytes);
    const decoder = new TextDecoder();
    tile.name = (row) => decoder.decode(names.subarray(row ? tile.end[row - 1] : 0, tile.end[row]));
    tile.most = tile.count.reduce((most, each) => Math.max(most, each), 1);
    return tile;
  }

  class GraphMap {
    constructor(section) {
      this.section = section;
      this.canvas = section.querySelector("canvas");
      this.context = this.canvas.getContext("2d");
      this.tip = section.querySelector(".map-tip");
      this.tiles = new Map();
      this.pictures = new Map();
      this.pointers = new Map();
      this.isDoubtful = false;
      this.view = { x: 0.5, y: 0.5, scale: 1 };
      this.listen();
      this.readColors();
      this.resize();
      this.reset();
      this.poll();
    }

    get isThere() { return document.contains(this.canvas); }

    // --------------------------------------------------------------------------------- data
    async poll() {
      if (!this.isThere) return;
      if (document.visibilityState === "visible") {
        try {
          await this.ask();
        } catch { /* the server is away: app.js says so, and the next poll asks again */ }
      }
      this.timer = setTimeout(() => this.poll(), POLL);
    }

    async ask() {
      const headers = this.tag ? { "If-None-Match": this.tag } : {};
      const answer = await fetch(this.section.dataset.map, { headers });
      if (answer.status === 304) return;
      if (!answer.ok) { // taken away, as when a node was erased: ask for the page's section anew
        if (answer.status === 404) htmx.ajax("GET", `${this.section.dataset.map}/section`, { target: "#map", swap: "outerHTML" });
        return;
      }
      const about = await answer.json();
      this.tag = answer.headers.get("ETag");
      if (this.about?.tag !== about.tag) {
        for (const tile of this.tiles.values()) tile.isOld = true;
        this.spots = undefined;
        this.pictures.clear();
      }
      this.about = about;
      this.tellLegend();
      this.draw();
    }

    key(z, x, y) { return `${z}/${x}/${y}${this.isDoubtful ? "?doubtful=true" : ""}`; }

    tile(z, x, y) {
      const key = this.key(z, x, y);
      let entry = this.tiles.get(key);
      if (!entry) {
        entry = {};
        this.tiles.set(key, entry);
        if (this.tiles.size > KEPT) this.tiles.delete(this.tiles.keys().next().value);
      } else { // the last to be forgotten
        this.tiles.delete(key);
        this.tiles.set(key, entry);
      }
      const isWanted = (!entry.data || entry.isOld) && !entry.isAsked;
      if (isWanted && performance.now() >= (entry.askAgainAt ?? 0)) this.load(key, entry);
      return entry.data;
    }

    async load(key, entry) {
      entry.isAsked = true;
      entry.isOld = false;
      let isRead = false;
      try {
        const answer = await fetch(`${this.section.dataset.map}/tiles/${key}`);
        if (answer.ok) {
          entry.data = decode(await answer.arrayBuffer());
          isRead = true;
        }
      } catch { /* the server does not answer now */ }
      entry.isAsked = false;
      if (!isRead) { // what is there stays, and is asked for again in a while
        entry.isOld = true;
        entry.askAgainAt = performance.now() + POLL;
        setTimeout(() => this.later(), POLL);
        return;
      }
      this.later();
    }

    // --------------------------------------------------------------------------------- view
    resize() {
      const ratio = window.devicePixelRatio || 1;
      this.width = this.canvas.clientWidth;
      this.height = this.canvas.clientHeight;
      this.canvas.width = Math.round(this.width * ratio);
      this.canvas.height = Math.round(this.height * ratio);
      this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.least = Math.max(Math.min(this.width, this.height) - 8, 1);
      this.view.scale = Math.max(this.view.scale, this.least);
      this.later();
    }

    reset() {
      this.view = { x: 0.5, y: 0.5, scale: this.least };
      this.moved();
    }

    get most() { return this.least * 2 ** ((this.about?.max_zoom ?? 0) + 4); }

    zoomBy(factor, x = this.width / 2, y = this.height / 2) {
      const [mapX, mapY] = this.toMap(x, y);
      const scale = clamp(this.view.scale * factor, this.least, this.most);
      this.view = { scale, x: mapX - (x - this.width / 2) / scale, y: mapY - (y - this.height / 2) / scale };
      this.moved();
    }

    panBy(dx, dy) {
      this.view.x += dx / this.view.scale;
      this.view.y += dy / this.view.scale;
      this.moved();
    }

    moved() {
      const halves = [this.width, this.height].map((side) => Math.min(side / 2 / this.view.scale, 0.5));
      this.view.x = clamp(this.view.x, halves[0], 1 - halves[0]);
      this.view.y = clamp(this.view.y, halves[1], 1 - halves[1]);
      this.canvas.classList.toggle("zoomed", this.view.scale > 1.01 * this.least);
      this.tip.hidden = true;
      this.later();
      clearTimeout(this.teller);
      this.teller = setTimeout(() => this.tell(), 400);
    }

    toMap(x, y) {
      return [this.view.x + (x - this.width / 2) / this.view.scale, this.view.y + (y - this.height / 2) / this.view.scale];
    }

    toScreen(x, y) {
      return [(x - this.view.x) * this.view.scale + this.width / 2, (y - this.view.y) * this.view.scale + this.height / 2];
    }

    get zoom() { return clamp(Math.ceil(Math.log2(this.view.scale / TILE) - 0.25), 0, this.about?.max_zoom ?? 0); }

    visible() {
      const z = this.zoom, tiles = 2 ** z;
      const low = this.toMap(0, 0), high = this.toMap(this.width, this.height);
      const [x0, y0] = low.map((each) => clamp(Math.floor(each * tiles), 0, tiles - 1));
      const [x1, y1] = high.map((each) => clamp(Math.floor(each * tiles), 0, tiles - 1));
      const found = [];
      for (let y = y0; y <= y1; y++) for (let x = x0; x <= x1; x++) found.push([z, x, y]);
      return found;
    }

    // ------------------------------------------------------------------------------ drawing
    readColors() {
      this.pictures.clear();
      this.colors = Array.from({ length: PALETTE }, (_, place) => css(`--class-${place}`));
      this.named = Object.fromEntries(["none", "ink", "paper", "accent", "focus"].map((name) => [name, css(name === "none" ? "--class-none" : `--${name}`)]));
    }

    later() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => { this.frame = undefined; this.draw(); });
    }

    paint(color) { // of numbers one color, of more or less strength
      if (color < 0) return [this.named.none, 0.8];
      if (this.about.predicts === "numbers") return [this.named.accent, 0.2 + 0.8 * color / Math.max(this.about.classes.length - 1, 1)];
      return [this.colors[this.about.palette[color]], 1];
    }

    draw() {
      if (!this.about || !this.isThere) return;
      const began = performance.now();
      this.context.clearRect(0, 0, this.width, this.height);
      this.isWhole = true;
      for (const [z, x, y] of this.visible()) {
        const data = this.tile(z, x, y);
        if (data) this.drawTile(data, z, x, y);
        else {
          this.isWhole = false;
          this.drawAncestor(z, x, y);
        }
      }
      this.drawNames();
      this.canvas.dataset.drawn = this.isWhole ? this.about.tag : "";
      this.canvas.dataset.milliseconds = (performance.now() - began).toFixed(1);
      if (this.isWhole && this.toldOf !== this.saying()) {
        clearTimeout(this.teller);
        this.teller = setTimeout(() => this.tell(), 400);
      }
    }

    drawAncestor(z, x, y) {
      for (let up = 1; up <= z; up++) {
        const data = this.tiles.get(this.key(z - up, x >> up, y >> up))?.data;
        if (!data) continue;
        const [left, top] = this.toScreen(x / 2 ** z, y / 2 ** z);
        const side = this.view.scale / 2 ** z;
        this.context.save();
        this.context.beginPath();
        this.context.rect(left, top, side, side);
        this.context.clip();
        this.drawTile(data, z - up, x >> up, y >> up);
        this.context.restore();
        return;
      }
    }

    drawTile(data, z, x, y) {
      const [left, top] = this.toScreen(x / 2 ** z, y / 2 ** z);
      const side = this.view.scale / 2 ** z;
      if (data.side) this.drawDensity(data, z, left, top, side);
      const pixels = side / 65536;
      const size = clamp(0.9 * Math.sqrt(this.view.scale / this.least) * Math.sqrt(20000 / Math.max(this.about.n_nodes, 2000)), 1.1, 4);
      const paths = new Map(), marked = [];
      for (let row = 0; row < data.n; row++) {
        const px = left + data.x[row] * pixels, py = top + data.y[row] * pixels;
        if (px < -8 || py < -8 || px > this.width + 8 || py > this.height + 8) continue;
        if (data.labeled[row] || data.side) { marked.push([data.labeled[row], px, py, data.color[row]]); continue; }
        if (!paths.has(data.color[row])) paths.set(data.color[row], new Path2D());
        const path = paths.get(data.color[row]), radius = size * (0.8 + 1.2 * data.doubt[row] / 255);
        path.moveTo(px + radius, py);
        path.arc(px, py, radius, 0, 7);
      }
      for (const [color, path] of paths) {
        [this.context.fillStyle, this.context.globalAlpha] = this.paint(color);
        this.context.fill(path);
      }
      marked.sort((a, b) => (a[0] || 1.5) - (b[0] || 1.5)); // labels, doubtful nodes, contradicted labels on top
      for (const mark of marked) this.drawMark(1.5 + size, ...mark);
      this.context.globalAlpha = 1;
    }

    // a ring for a label, one with a cross for a label that the others contradict, a diamond for doubt
    drawMark(radius, labeled, x, y, color) {
      const { context } = this, reach = labeled === 1 ? radius : radius + 1;
      context.beginPath();
      if (labeled) context.arc(x, y, reach, 0, 7);
      else for (const [dx, dy] of [[0, -reach], [reach, 0], [0, reach], [-reach, 0]]) context.lineTo(x + dx, y + dy);
      context.closePath();
      [context.fillStyle, context.globalAlpha] = this.paint(color);
      context.fill();
      context.globalAlpha = 1;
      if (labeled === 2) for (const turn of [-1, 1]) {
        context.moveTo(x - 1.3 * reach, y - turn * 1.3 * reach);
        context.lineTo(x + 1.3 * reach, y + turn * 1.3 * reach);
      }
      for (const [style, width] of [[this.named.paper, 3], [this.named.ink, labeled === 1 ? 1 : 1.5]]) {
        [context.strokeStyle, context.lineWidth] = [style, width];
        if (labeled !== 1 || style === this.named.ink) context.stroke();
      }
    }

    // the stronger, the more nodes, on a scale that all tiles of a zoom share
    drawDensity(data, z, left, top, side) {
      let picture = this.pictures.get(data);
      if (!picture) {
        const most = this.tiles.get(this.key(0, 0, 0))?.data?.most ?? data.most;
        picture = this.densityOf(data, Math.max(most / 3 ** z, 3)); // nodes lie in clusters: not 4 ** z
        this.pictures.set(data, picture);
        if (this.pictures.size > PICTURES) this.pictures.delete(this.pictures.keys().next().value);
      }
      this.context.drawImage(picture, left, top, side, side);
    }

    densityOf(data, most) {
      const wide = GRAIN * data.side, image = new ImageData(wide, wide);
      const pixels = new Uint32Array(image.data.buffer);
      const { classes, n_nodes: nNodes } = this.about;
      const isRare = (color) => color >= 0 && classes[color].n_nodes * classes.length * 5 < nNodes; // shown also where few
      const paints = new Map(); // as ImageData has them, little-endian
      const pixel = (color, strength) => {
        if (!paints.has(color)) {
          const [hex, alpha] = this.paint(color);
          const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
          paints.set(color, [255 * alpha, blue << 16 | green << 8 | red]);
        }
        const [alpha, rgb] = paints.get(color);
        return (Math.round(alpha * strength) << 24 | rgb) >>> 0;
      };
      for (let place = 0; place < data.count.length; place++) {
        const count = data.count[place];
        if (!count) continue;
        const winner = data.winner[place], standout = data.standout[place];
        const strength = Math.min(0.25 + 0.75 * Math.log1p(count) / Math.log1p(most), 1);
        const usual = pixel(winner, isRare(winner) ? Math.max(strength, 0.7) : strength);
        const n = standout === winner ? 0 : Math.max(isRare(standout) ? 9 : 4, Math.round(OUTWARDS.length * data.standoutShare[place] / 255));
        const dot = n ? pixel(standout, 1) : usual;
        const first = Math.floor(place / data.side) * GRAIN * wide + (place % data.side) * GRAIN;
        for (let nth = 0; nth < OUTWARDS.length; nth++) {
          pixels[first + (OUTWARDS[nth] >> 2) * wide + (OUTWARDS[nth] & 3)] = nth < n ? dot : usual;
        }
      }
      const picture = document.createElement("canvas");
      picture.width = picture.height = wide;
      picture.getContext("2d").putImageData(image, 0, 0);
      return picture;
    }

    // names of classes where most of their nodes are, so that colour alone says nothing
    drawNames() {
      const whole = this.tiles.get(this.key(0, 0, 0))?.data;
      if (!whole || this.about.predicts === "numbers") return;
      this.spots ??= this.placeNames(whole);
      this.context.font = "700 15px system-ui, sans-serif";
      this.context.textAlign = "center";
      this.context.textBaseline = "middle";
      this.context.lineWidth = 5;
      this.context.lineJoin = "round";
      this.context.strokeStyle = this.named.paper;
      this.context.fillStyle = this.named.ink;
      const line = 20, taken = [];
      for (const [name, x, y] of this.spots) {
        const [px, py] = this.toScreen(x, y);
        const room = this.width - 8;
        const half = Math.min(this.context.measureText(name).width, room) / 2 + 4;
        const isSeen = px >= 0 && px <= this.width; // then all of its name is
        const middle = isSeen ? clamp(px, half, this.width - half) : px;
        // a line off where it would cover another name
        const isFree = (by) => taken.every(([at, height, wide]) =>
          Math.abs(at - middle) >= wide + half || Math.abs(height - py - by) >= line);
        const at = py + ([0, line, -line, 2 * line, -2 * line].find(isFree) ?? 0);
        taken.push([middle, at, half]);
        this.context.strokeText(name, middle, at, room);
        this.context.fillText(name, middle, at, room);
      }
    }

    placeNames(whole) {
      const grid = 24, sums = new Map();
      const add = (color, x, y, weight) => {
        if (color < 0) return;
        if (!sums.has(color)) sums.set(color, new Map());
        const places = sums.get(color), place = Math.floor(y * grid) * grid + Math.floor(x * grid);
        const sum = places.get(place) ?? [0, 0, 0];
        places.set(place, [sum[0] + weight, sum[1] + weight * x, sum[2] + weight * y]);
      };
      if (whole.side) {
        whole.count.forEach((count, place) => count && add(whole.winner[place], (place % whole.side + 0.5) / whole.side, (Math.floor(place / whole.side) + 0.5) / whole.side, count));
      } else for (let row = 0; row < whole.n; row++) add(whole.color[row], whole.x[row] / 65536, whole.y[row] / 65536, 1);
      return this.largest().flatMap(({ label, color }) => {
        const best = [...(sums.get(color) ?? new Map()).values()].sort((a, b) => b[0] - a[0])[0];
        return best ? [[label.length > 18 ? `${label.slice(0, 17)}…` : label, best[1] / best[0], best[2] / best[0]]] : [];
      });
    }

    largest() {
      const classes = this.about.classes.map((each, color) => ({ ...each, color }));
      if (this.about.predicts === "numbers") return classes;
      return classes.sort((a, b) => b.n_nodes - a.n_nodes).slice(0, NAMED);
    }

    tellLegend() {
      const key = (classes, style = {}) => { // a circle, or a path
        const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        svg.setAttribute("class", `swatch ${classes}`);
        svg.setAttribute("viewBox", "0 0 16 16");
        svg.setAttribute("aria-hidden", "true");
        const isPath = typeof style === "string";
        const spot = document.createElementNS("http://www.w3.org/2000/svg", isPath ? "path" : "circle");
        for (const [name, value] of Object.entries(isPath ? { d: style } : { cx: 8, cy: 8, r: 6, ...style })) spot.setAttribute(name, value);
        svg.append(spot);
        return svg;
      };
      const { classes, predicts, n_labeled, n_contradicted, n_nodes } = this.about;
      const rows = this.largest().map(({ label, n_nodes: size, color }) =>
        [predicts === "numbers" ? key("ramp", { "fill-opacity": this.paint(color)[1] }) : key(`class-${this.about.palette[color]}`), predicts === "nothing" ? label : `${label}: ${number.format(size)}`]);
      if (rows.length < classes.length) rows.push([`and ${number.format(classes.length - rows.length)} more`]);
      const known = classes.reduce((sum, each) => sum + each.n_nodes, 0);
      if (known < n_nodes) rows.push([key("class-none"), `${predicts === "nothing" ? "not predicted" : "no label reaches"}: ${number.format(n_nodes - known)}`]);
      if (n_labeled) rows.push([key("ringed"), `labeled: ${number.format(n_labeled)}`]);
      if (n_contradicted) rows.push([key("crossed", "M2 2 14 14 M2 14 14 2 M8 4.5A3.5 3.5 0 1 0 8 11.5A3.5 3.5 0 1 0 8 4.5"), `label that the others contradict: ${number.format(n_contradicted)}`]);
      if (predicts === "classes" && n_nodes > this.about.tile_points) rows.push([key("pointed", "M8 2 14 8 8 14 2 8Z"), "most doubtful, where not all nodes are shown"]);
      this.section.querySelector(".map-legend").replaceChildren(...rows.map((row) => element("li", row)));
    }

    // ------------------------------------------------------------------- words and a table
    inView(visit) { // each point and cell in view once, with its place on the screen
      for (const [z, x, y] of this.visible()) {
        const data = this.tiles.get(this.key(z, x, y))?.data;
        if (!data) continue;
        const side = this.view.scale / 2 ** z;
        const [left, top] = this.toScreen(x / 2 ** z, y / 2 ** z);
        const is = (px, py) => px >= 0 && py >= 0 && px <= this.width && py <= this.height;
        for (let row = 0; row < data.n; row++) {
          const px = left + data.x[row] * side / 65536, py = top + data.y[row] * side / 65536;
          if (is(px, py)) visit({ data, row, px, py });
        }
        for (let place = 0; place < data.count.length; place++) {
          if (!data.count[place]) continue;
          const px = left + (place % data.side + 0.5) * side / data.side, py = top + (Math.floor(place / data.side) + 0.5) * side / data.side;
          if (is(px, py)) visit({ data, place, px, py });
        }
      }
    }

    label(color) { return color < 0 ? "none" : this.about.classes[color]?.label ?? "none"; }

    saying() { return JSON.stringify([this.about?.tag, this.view, this.isDoubtful, this.width]); }

    tell() {
      if (!this.about || !this.isWhole || !this.isThere) return;
      this.toldOf = this.saying();
      const regions = REGIONS.map(() => ({ n: 0, of: new Map() })), doubts = [];
      this.inView(({ data, row, place, px, py }) => {
        if (row !== undefined && data.color[row] >= 0 && data.doubt[row]) doubts.push([data.doubt[row], data, row]);
        if (data.side && row !== undefined) return; // counted by its cell
        const region = regions[3 * clamp(Math.floor(3 * py / this.height), 0, 2) + clamp(Math.floor(3 * px / this.width), 0, 2)];
        const n = row === undefined ? data.count[place] : 1;
        const color = row === undefined ? data.winner[place] : data.color[row];
        region.n += n;
        region.of.set(color, (region.of.get(color) ?? 0) + (row === undefined ? n * data.share[place] / 255 : 1));
      });
      doubts.sort((a, b) => b[0] - a[0]);
      this.fillRegions(regions);
      this.fillDoubts(doubts.slice(0, ROWS));
      const n = regions.reduce((sum, each) => sum + each.n, 0);
      const nearest = this.nearest(this.width / 2, this.height / 2, Infinity);
      const middle = nearest ? ` Nearest the middle: ${this.describe(nearest.data, nearest.row)}.` : "";
      const factor = this.view.scale / this.least;
      this.section.querySelector("#map-said").textContent =
        `${number.format(n)} ${this.isDoubtful ? "doubtful " : ""}nodes in view, ${factor > 1.01 ? `enlarged ${factor.toFixed(factor < 10 ? 1 : 0)} times` : "the whole map"}.${middle}`;
    }

    fillRegions(regions) {
      const rows = regions.flatMap((region, place) => {
        if (!region.n) return [];
        const [color, most] = [...region.of].sort((a, b) => b[1] - a[1])[0];
        const button = element("button", REGIONS[place], { type: "button", class: "quiet", "data-region": place, "aria-label": `Enlarge ${REGIONS[place]}` });
        return [element("tr", [element("th", button, { scope: "row" }), element("td", number.format(region.n), { class: "number" }), element("td", this.label(color)), element("td", percent(most / region.n), { class: "number" })])];
      });
      this.fill("[data-regions]", rows, 4, "no nodes in view");
    }

    fillDoubts(doubts) {
      const rows = doubts.map(([doubt, data, row]) => element("tr", [
        element("th", element("a", data.name(row), { href: this.address(data.name(row)) }), { scope: "row" }),
        element("td", this.label(data.color[row])),
        element("td", Number.isNaN(data.score[row]) ? "–" : data.score[row].toFixed(3), { class: "number" }),
        element("td", (doubt / 255).toFixed(2), { class: "number" }),
        element("td", ["", "yes", "contradicted"][data.labeled[row]]),
      ]));
      this.fill("[data-doubts]", rows, 5, "none is in doubt");
    }

    fill(selector, rows, columns, nothing) {
      const body = this.section.querySelector(selector);
      const active = document.activeElement, place = body.contains(active) ? active.dataset.region : undefined;
      body.replaceChildren(...(rows.length ? rows : [element("tr", element("td", nothing, { colspan: columns }))]));
      if (place !== undefined) (body.querySelector(`[data-region="${place}"]`) ?? body.querySelector("button") ?? this.canvas).focus();
    }

    // ----------------------------------------------------------------------------- pointing
    address(name) { return `${this.section.dataset.node}?${new URLSearchParams({ id: name })}`; }

    describe(data, row) {
      const what = data.labeled[row] ? "labeled" : "predicted";
      const doubt = data.labeled[row] === 2 ? ", which the other labels contradict" : "";
      const score = Number.isNaN(data.score[row]) ? "" : `, score ${data.score[row].toFixed(3)}`;
      const told = data.color[row] < 0 ? (data.labeled[row] ? "labeled" : "nothing predicted") : `${what} ${this.label(data.color[row])}`;
      return `${data.name(row)}: ${told}${doubt}${score}`;
    }

    nearest(x, y, within = NEAR) {
      let best, least = within * within;
      this.inView(({ data, row, px, py }) => {
        if (row === undefined) return;
        const square = (px - x) ** 2 + (py - y) ** 2;
        if (square < least) [best, least] = [{ data, row, px, py }, square];
      });
      return best;
    }

    cellAt(x, y) {
      const [mapX, mapY] = this.toMap(x, y), z = this.zoom, tiles = 2 ** z;
      const [column, line] = [Math.floor(mapX * tiles), Math.floor(mapY * tiles)];
      const data = this.tiles.get(this.key(z, column, line))?.data;
      if (!data?.side) return undefined;
      const place = Math.floor((mapY * tiles - line) * data.side) * data.side + Math.floor((mapX * tiles - column) * data.side);
      if (!data.count[place]) return undefined;
      const part = (color, share) => `${this.label(color)} (${percent(share / 255)})`;
      const more = data.standout[place] === data.winner[place] ? "" : `, more than elsewhere ${part(data.standout[place], data.standoutShare[place])}`;
      return `${number.format(data.count[place])} nodes, most ${part(data.winner[place], data.share[place])}${more}`;
    }

    hover(x, y) {
      const found = this.nearest(x, y);
      const text = found ? this.describe(found.data, found.row) : this.cellAt(x, y);
      this.canvas.classList.toggle("on-node", Boolean(found));
      this.tip.hidden = !text;
      if (!text) return;
      this.tip.textContent = text;
      this.tip.style.left = `${clamp(x + 14, 0, Math.max(this.width - this.tip.offsetWidth - 4, 0))}px`;
      this.tip.style.top = `${y + 18 + this.tip.offsetHeight > this.height ? y - this.tip.offsetHeight - 10 : y + 18}px`;
    }

    open(found) { if (found) location.assign(this.address(found.data.name(found.row))); }

    // ------------------------------------------------------------------------------- events
    listen() {
      const { canvas, section } = this;
      const at = (event) => {
        const box = canvas.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      canvas.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        canvas.setPointerCapture(event.pointerId);
        this.pointers.set(event.pointerId, at(event));
        this.travelled = this.pointers.size > 1 ? Infinity : 0;
      });
      canvas.addEventListener("pointermove", (event) => {
        const now = at(event), before = this.pointers.get(event.pointerId);
        if (!before) return this.hover(...now);
        const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
        this.pointers.set(event.pointerId, now);
        this.travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
        if (other) {
          const apart = (point) => Math.max(Math.hypot(point[0] - other[0], point[1] - other[1]), 1);
          this.zoomBy(apart(now) / apart(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
        } else if (this.travelled > 4) {
          canvas.classList.add("dragged");
          this.panBy(before[0] - now[0], before[1] - now[1]);
        }
      });
      const up = (event) => {
        this.pointers.delete(event.pointerId);
        canvas.classList.remove("dragged");
      };
      canvas.addEventListener("pointerup", up);
      canvas.addEventListener("pointercancel", up);
      canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      canvas.addEventListener("click", (event) => {
        if (this.travelled > 4) return;
        const place = at(event), found = this.nearest(...place);
        if (found) this.open(found);
        else if (this.cellAt(...place)) this.zoomBy(2, ...place);
      });
      canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls
        event.preventDefault();
        this.zoomBy(2 ** (-clamp(event.deltaY, -200, 200) / 200), ...at(event));
      }, { passive: false });
      canvas.addEventListener("keydown", (event) => this.press(event));
      section.addEventListener("click", (event) => {
        const { zoom, region } = event.target.closest("[data-zoom], [data-region]")?.dataset ?? {};
        if (zoom) Number(zoom) ? this.zoomBy(Number(zoom)) : this.reset();
        if (region) this.zoomBy(3, (region % 3) * this.width / 2, Math.floor(region / 3) * this.height / 2);
      });
      section.querySelector("[data-doubtful]").addEventListener("change", (event) => {
        this.isDoubtful = event.target.checked;
        this.moved();
      });
      new ResizeObserver(() => this.isThere && this.resize()).observe(canvas);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.readColors(); this.later(); });
    }

    press(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const step = 0.2 * Math.min(this.width, this.height);
      const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
      if (moves[event.key]) this.panBy(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.zoomBy(2);
      else if (event.key === "-") this.zoomBy(0.5);
      else if (event.key === "0") this.reset();
      else if (event.key === "Enter") this.open(this.nearest(this.width / 2, this.height / 2, Infinity));
      else return;
      event.preventDefault();
    }
  }

  const begun = new WeakSet();

  function begin() {
    const section = document.querySelector("[data-map]");
    if (!section || begun.has(section)) return;
    begun.add(section);
    new GraphMap(section);
  }

  document.addEventListener("DOMContentLoaded", begin);
  document.addEventListener("htmx:afterSettle", begin);
})();
