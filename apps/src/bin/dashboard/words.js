// Numbers and durations in words, and elements with text. Text from the server is never read as HTML.

const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const $ = (id) => document.getElementById(id);

export function element(name, text = '', className = '') {
  const node = document.createElement(name);
  node.textContent = text;
  node.className = className;
  return node;
}

export function number(value) {
  return value < 10_000_000 ? whole.format(value) : short.format(value);
}

export function percent(part, all) {
  if (all === 0) return '–';
  const share = (100 * part) / all;
  return `${share > 0 && share < 10 ? share.toFixed(1) : Math.round(share)} %`;
}

// A duration in microseconds, rounded up to the smallest unit shown.
export function duration(us) {
  if (us < 1e6) return `${Math.ceil(us / 1000)} ms`;
  const seconds = Math.ceil(us / 1e6);
  if (seconds < 60) return `${seconds} s`;
  const units = [['d', 86_400], ['h', 3600], ['min', 60], ['s', 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  const [[big, size], [small, part]] = units.slice(first, first + 2);
  const rest = Math.floor((seconds % size) / part);
  return `${Math.floor(seconds / size)} ${big}${rest ? ` ${rest} ${small}` : ''}`;
}

export function ago(ms) {
  return ms < 2000 ? 'now' : `${duration(Math.floor(ms / 1000) * 1e6)} ago`;
}

// Replaces the facts of a list: pairs of a term and what there is to say about it, which can be nothing.
export function showFacts(list, facts) {
  const known = facts.filter(([, text]) => text !== null && text !== undefined);
  list.replaceChildren(...known.flatMap(([term, text]) => [element('dt', term), element('dd', text)]));
}
