// Computes without end, for `npm run test:loaded`; ends with the process that started it.
process.once('disconnect', () => process.exit());

let sum = 0;
function spin(): void {
  for (let i = 0; i < 5_000_000; i += 1) sum = (sum * 31 + i) % 1_000_003;
  setImmediate(spin);
}
spin();
