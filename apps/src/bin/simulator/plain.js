// The limits without tiers, which get the same requests: the fields of each, the most that passes at once first, and how
// it reads.

export const PLAIN = [
  {
    id: 'gcra', name: 'GCRA', subject: 'GCRA', fields: ['burst', 'count', 'period'],
    rate: ([burst, count, period]) => `${count} per ${period} s, burst ${burst}`,
  },
  {
    id: 'window', name: 'Window', subject: 'the window', fields: ['limit', 'window'],
    rate: ([limit, seconds]) => `${limit} in any ${seconds} s`,
  },
  {
    id: 'quota', name: 'Quota', subject: 'the quota', fields: ['quota', 'period'],
    rate: ([quota, period]) => `${quota} per ${period} s, from first use`,
  },
  {
    id: 'concurrent', name: 'At once', subject: 'the concurrency limit', fields: ['limit', 'work'], units: 'permits',
    rate: ([limit, work]) => `${limit} at once, each for ${work} s`,
  },
];

// The same for each of them, by its id.
export function each(make) {
  return Object.fromEntries(PLAIN.map((limit) => [limit.id, make(limit)]));
}

// A card with the timelines of one of them.
export function card({ id, name, units = 'units' }) {
  return `<section class="card plain" data-limit="${id}" aria-labelledby="${id}-title">
    <header class="title">
      <h2 id="${id}-title">${name}</h2>
      <dl class="totals">
        <div class="good"><dt>granted</dt><dd id="${id}-granted">0</dd></div>
        <div class="bad"><dt>rejected</dt><dd id="${id}-rejected">0</dd></div>
      </dl>
    </header>
    <div class="lane">
      <div class="about"><h3>${units === 'permits' ? 'Permits left' : 'Left'}</h3><p id="${id}-rate"></p><p><b id="${id}-left"></b></p></div>
      <canvas id="${id}-levels" role="img" aria-label="${name}: ${units} left over time"></canvas>
    </div>
    <div class="lane">
      <div class="about"><h3>Requests</h3><p>the same ones</p></div>
      <canvas class="asked" id="${id}-asked" role="img"
        aria-label="${name}: requests over time, granted ones upwards, rejected ones downwards"></canvas>
    </div>
  </section>`;
}
