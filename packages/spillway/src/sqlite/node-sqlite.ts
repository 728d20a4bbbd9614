let loaded: typeof import('node:sqlite') | undefined;

/** Loaded when first needed, and quietly: Node warned of it until 24.15, which is no news here. */
export function nodeSqlite(): typeof import('node:sqlite') {
  if (loaded === undefined) {
    const { emitWarning } = process;
    process.emitWarning = () => {};
    try {
      loaded = process.getBuiltinModule('node:sqlite');
    } finally {
      process.emitWarning = emitWarning;
    }
  }
  return loaded;
}
