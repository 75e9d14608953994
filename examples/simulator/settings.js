// The configuration: its fields on the page, and its form in the page's address.

const FIELDS = ['limit', 'window', 'active', 'cooldown'];
const GCRA_FIELDS = ['burst', 'count', 'period'];
const NUMBERS = ['limit', 'burst', 'count']; // All others are seconds.
const ADDED = [[5, 1, 1, 0], [50, 5, 5, 15], [100, 10, 10, 30], [200, 15, 15, 30]];

const rows = document.getElementById('rows');

export function queryOf({ tiers, gcra }) {
  return `?tiers=${tiers.flat().join()}&gcra=${gcra.join()}`;
}

// The same with so many tiers: those on top are left out, or some are added.
export function withTiers({ tiers, gcra }, count) {
  return { tiers: [...tiers, ...ADDED.slice(tiers.length)].slice(0, count), gcra };
}

export function show({ tiers, gcra }) {
  document.querySelector(`input[name="count"][value="${tiers.length}"]`).checked = true;
  if (rows.children.length !== tiers.length + 1) {
    const lines = tiers.map((_, i) => row(`Tier ${i}`, `tier-${i}`, FIELDS));
    rows.innerHTML = [...lines, row('GCRA', 'gcra', GCRA_FIELDS)].join('');
  }
  [...tiers, gcra].forEach((values, i) => {
    inputs(rows.children[i]).forEach((input, j) => {
      // Whoever is typing `05` is left alone.
      if (input.value === '' || Number(input.value) !== values[j]) input.value = values[j];
    });
  });
}

export function read() {
  const lists = [...rows.children].map((line) => inputs(line).map((input) => Number(input.value)));
  return { tiers: lists.slice(0, -1), gcra: lists.at(-1) };
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
