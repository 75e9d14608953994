// The configuration: its fields on the page, and its form in the page's address.

import { PLAIN } from './plain.js';

const FIELDS = ['limit', 'window', 'active', 'cooldown'];
const NUMBERS = ['limit', 'burst', 'count', 'quota']; // All others are seconds.
const ADDED = [[5, 1, 1, 0], [50, 5, 5, 15], [100, 10, 10, 30], [200, 15, 15, 30]];

const rows = document.getElementById('rows');

export function queryOf(config) {
  const plain = PLAIN.map(({ id }) => `&${id}=${config[id].join()}`);
  return `?tiers=${config.tiers.flat().join()}${plain.join('')}`;
}

// The same with so many tiers: those on top are left out, or some are added.
export function withTiers(config, count) {
  const { tiers } = config;
  return { ...config, tiers: [...tiers, ...ADDED.slice(tiers.length)].slice(0, count) };
}

export function show(config) {
  const { tiers } = config;
  document.querySelector(`input[name="count"][value="${tiers.length}"]`).checked = true;
  if (rows.children.length !== tiers.length + PLAIN.length) {
    const lines = tiers.map((_, i) => row(`Tier ${i}`, `tier-${i}`, FIELDS));
    rows.innerHTML = [...lines, ...PLAIN.map(({ name, id, fields }) => row(name, id, fields))].join('');
  }
  [...tiers, ...PLAIN.map(({ id }) => config[id])].forEach((values, i) => {
    inputs(rows.children[i]).forEach((input, j) => {
      // Whoever is typing `05` is left alone.
      if (input.value === '' || Number(input.value) !== values[j]) input.value = values[j];
    });
  });
}

export function read() {
  const lists = [...rows.children].map((line) => inputs(line).map((input) => Number(input.value)));
  const plain = lists.splice(-PLAIN.length);
  return { tiers: lists, ...Object.fromEntries(PLAIN.map(({ id }, i) => [id, plain[i]])) };
}

// What is no whole number at all, in the browser's words.
export function mistake() {
  const wrong = inputs(rows).find((input) => !input.checkValidity());
  return wrong && `${wrong.ariaLabel}: ${wrong.validationMessage}`;
}

function inputs(node) {
  return [...node.querySelectorAll('input')];
}

function row(name, id, fields) {
  const labels = fields.map((field) => {
    const [unit, inUnit] = NUMBERS.includes(field) ? ['', ''] : [', s', ' in seconds'];
    return `<label>${field}${unit}<input type="number" id="${id}-${field}" min="0" max="999999999" step="1" required
      aria-label="${name} ${field}${inUnit}"></label>`;
  });
  return `<div class="row"><h3>${name}</h3>${labels.join('')}</div>`;
}
