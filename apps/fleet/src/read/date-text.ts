/** UNIX milliseconds as `2026-11-15 20:54:01.533000+00:00`; no fraction if there is none. */
export function dateText(ms: number): string {
  const [day, time = ''] = new Date(Math.floor(ms)).toISOString().slice(0, -1).split('T');
  const [seconds, fraction] = time.split('.');
  return `${day} ${seconds}${fraction === '000' ? '' : `.${fraction}000`}+00:00`;
}
