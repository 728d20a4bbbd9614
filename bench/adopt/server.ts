// The program of one contender's server, or of the upstream: it ends with its parent.
process.once('disconnect', () => process.exit());
await import(`./${process.argv[2]}.ts`);
