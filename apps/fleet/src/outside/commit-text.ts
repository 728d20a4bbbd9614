/** Content of a commit's message: its bench, and the rest as a description. */
export interface CommitText {
  /** The last `Bench: <6 to 8 digits>`; undefined if there is none. */
  readonly signature: string | undefined;
  readonly info: string;
}

/** Reads the message of an engine's commit. */
export function commitText(message: string): CommitText {
  const benches = [...message.matchAll(/\bbench\s*:?\s*([1-9]\d{5,7})\b/gi)];
  const last = benches.at(-1);
  if (last === undefined) return { signature: undefined, info: message.trim() };
  const before = message.slice(0, last.index);
  const after = message.slice(last.index + last[0].length);
  return { signature: last[1], info: `${before}${after}`.trim() };
}

/** The nets that an engine's source names as its defaults, each once. */
export function netNames(source: string): string[] {
  const lines = source.split('\n').filter((line) => {
    return line.includes('EvalFileDefaultName') && line.includes('define');
  });
  return [...new Set(lines.flatMap((line) => line.match(/\bnn-[a-f0-9]{12}\.nnue\b/g) ?? []))];
}
