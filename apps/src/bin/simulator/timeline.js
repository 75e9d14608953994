// Draws what the server has answered, on canvases that have time from left to right.

import { PLAIN } from './plain.js';

const NOW_AT = 0.84; // Where "now" is, from the left.
const ROUND = [1, 2, 5, 10, 20, 30, 60].map((seconds) => 1000 * seconds); // How far apart instants are written.

// Draws one simulation: each tier, what was asked, and for each limit without tiers what is left and what was asked.
export function drawAll(sim, config, canvases) {
  const wide = sim.isWhole ? sim.t / NOW_AT : span(config);
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(`--${name}`);
  const view = { sim, from: Math.max(0, sim.t - NOW_AT * wide), wide, now: sim.t, ink };
  canvases.tiers.forEach((canvas, i) => drawTier(paper(canvas, view), i, config.tiers[i][0]));
  const byTier = ({ tier }) => [ink(`tier-${tier}`), 0.4 + 0.15 * tier];
  drawAsks(paper(canvases.asked, view, true), (one) => one.granted, byTier);
  for (const { id } of PLAIN) {
    const levels = paper(canvases.plain[id].levels, view);
    drawArea(levels, ink(id), config[id][0], ({ left }) => left[id]);
    drawNow(levels);
    drawAsks(paper(canvases.plain[id].asked, view, true), (one) => one.plain[id].granted, () => [ink(id), 0.55]);
  }
}

// How much time is shown: a little more than the longest way through a tier, a window, a quota's period or some work.
function span(config) {
  const ways = config.tiers.map(([, , active, cooldown]) => active + cooldown);
  const longest = Math.max(...ways, config.window[1], config.quota[1], config.concurrent[1]);
  return 1000 * ([15, 30, 60, 120].find((wide) => wide >= 1.25 * longest) ?? 120);
}

// A canvas with as many pixels as the screen has for it, cleared and ruled.
function paper(canvas, view, isRuled = false) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const sheet = { ...view, pen, width, height, x: (at) => ((at - view.from) / view.wide) * width };
  const every = ROUND.find((round) => view.wide / round <= width / 70) ?? ROUND.at(-1);
  pen.font = '11px system-ui, sans-serif';
  for (let at = Math.ceil(view.from / every) * every; at < view.from + view.wide; at += every) {
    const left = sheet.x(at);
    pen.fillStyle = view.ink('line');
    pen.fillRect(left, 0, 1, height);
    pen.fillStyle = view.ink('soft');
    if (isRuled && left < width - 36) pen.fillText(`${at / 1000} s`, left + 4, height - 5);
  }
  return sheet;
}

function drawTier(sheet, i, limit) {
  const { sim, pen, x, height, ink, from } = sheet;
  const color = ink(`tier-${i}`);
  for (const { entry, active_until: active, cooldown_until: cooldown } of sim.periods[i].values()) {
    if (cooldown < from) continue;
    pen.globalAlpha = 0.13;
    pen.fillStyle = color;
    pen.fillRect(x(entry), 0, x(active) - x(entry), height);
    pen.globalAlpha = 0.7;
    pen.fillRect(x(entry), 0, 1.5, height);
    pen.globalAlpha = 1;
    hatch(sheet, x(active), x(cooldown), ink('cold'));
  }
  drawArea(sheet, color, limit, ({ tiers }) => tiers[i].used);
  const shadows = shadowsOf(sheet, i);
  for (const { entry, active_until: active, cooldown_until: cooldown } of sim.periods[i].values()) {
    const shadow = shadows.find(([from]) => from >= entry);
    caption(sheet, 'active', x(entry), x(Math.min(active, shadow?.[0] ?? active)), color);
    if (cooldown > active) caption(sheet, 'cooldown', x(active), x(cooldown), ink('cold'));
  }
  shadows.forEach((shadow) => drawShadow(sheet, shadow));
  drawNow(sheet);
}

// What is active under an active tier is dimmed.
function drawShadow({ pen, x, height, ink, ...sheet }, [from, until]) {
  const [left, right] = [x(from), x(until)];
  if (right < 0) return;
  pen.fillStyle = ink('well');
  pen.globalAlpha = 0.62;
  pen.fillRect(left, 0, right - left, height);
  pen.globalAlpha = 1;
  pen.strokeStyle = ink('edge');
  pen.setLineDash([4, 4]);
  pen.strokeRect(left + 0.5, 0.5, Math.max(right - left - 1, 0), height - 1);
  pen.setLineDash([]);
  caption({ pen, ink, ...sheet }, 'shadowed', left, right, ink('soft'));
}

// From when until when the server has said that a tier is shadowed.
function shadowsOf({ sim, now }, i) {
  const spans = [];
  let from = null;
  for (const { at, tiers } of sim.samples) {
    if (tiers[i].shadowed) from ??= at;
    else if (from !== null) {
      spans.push([from, at]);
      from = null;
    }
  }
  return from === null ? spans : [...spans, [from, now]];
}

function hatch({ pen, height, width }, from, to, color) {
  const [left, right] = [Math.max(from, -height), Math.min(to, width)];
  if (right <= left) return;
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, right - left, height);
  pen.clip();
  pen.fillStyle = pen.strokeStyle = color;
  pen.globalAlpha = 0.07;
  pen.fillRect(left, 0, right - left, height);
  pen.globalAlpha = 0.4;
  pen.beginPath();
  for (let x = from - height + ((Math.max(0, left - from) / 9) | 0) * 9; x < right; x += 9) {
    pen.moveTo(x, height);
    pen.lineTo(x + height, 0);
  }
  pen.stroke();
  pen.restore();
}

function caption({ pen, width, ink }, text, from, to, color) {
  const [left, right] = [Math.max(from, 0), Math.min(to, width)];
  const size = pen.measureText(text).width;
  if (right - left < size + 22) return;
  pen.fillStyle = ink('well');
  pen.beginPath();
  pen.roundRect(left + 6, 12, size + 10, 17, 4);
  pen.fill();
  pen.fillStyle = color;
  pen.fillText(text, left + 11, 24.5);
}

// A quantity over time, as steps, under the line of its most.
function drawArea({ sim, pen, x, height, now, from, ink }, color, most, of) {
  const top = 8;
  const y = (value) => height - 1 - (height - 1 - top) * Math.min(value / most, 1);
  const first = Math.max(sim.samples.findIndex(({ at }) => at >= from) - 1, 0);
  const line = new Path2D();
  let level = height;
  for (const sample of sim.samples.slice(first)) {
    const next = y(of(sample));
    if (sample.at === sim.samples[first].at) line.moveTo(x(sample.at), next);
    else line.lineTo(x(sample.at), level);
    line.lineTo(x(sample.at), next);
    level = next;
  }
  line.lineTo(x(now), level);
  const area = new Path2D(line);
  area.lineTo(x(now), height);
  area.lineTo(x(sim.samples[first].at), height);
  pen.fillStyle = pen.strokeStyle = color;
  pen.globalAlpha = 0.42;
  pen.fill(area);
  pen.globalAlpha = 1;
  pen.lineWidth = 1.5;
  pen.stroke(line);
  pen.lineWidth = 1;
  pen.strokeStyle = ink('edge');
  pen.setLineDash([2, 4]);
  pen.strokeRect(-2, top - 0.5, 1e5, 1e5);
  pen.setLineDash([]);
}

// What was asked: the color of what is granted and how much of the height it takes are `lookOf` it.
function drawAsks(sheet, isGranted, lookOf) {
  const { sim, pen, x, height, width, ink, from } = sheet;
  const middle = Math.round(height * 0.56);
  pen.fillStyle = ink('edge');
  pen.fillRect(0, middle, width, 1);
  for (const one of sim.asks) {
    if (one.at < from) continue;
    const left = x(one.at);
    if (isGranted(one)) {
      const [color, part] = lookOf(one);
      pen.fillStyle = color;
      pen.fillRect(left - 0.75, middle * (1 - part), 1.8, middle * part);
    } else {
      pen.fillStyle = pen.strokeStyle = ink('bad');
      pen.fillRect(left - 0.5, middle, 1, 10);
      pen.beginPath();
      pen.moveTo(left - 2.5, middle + 8);
      pen.lineTo(left + 2.5, middle + 13);
      pen.moveTo(left + 2.5, middle + 8);
      pen.lineTo(left - 2.5, middle + 13);
      pen.stroke();
    }
  }
  drawNow(sheet);
}

function drawNow({ pen, x, height, now, ink }) {
  pen.fillStyle = ink('text');
  pen.fillRect(x(now), 0, 1, height);
}
