const columns = 70;

/** Tells a blocked worker's owner why, and where to read more. */
export function blockedText(name: string, message: string, baseUrl: string): string {
  return [
    `Worker ${name} is blocked: it gets no tasks.`,
    'The reason given is:',
    '',
    ...wrap(message),
    '',
    'What it did can be read at',
    `${baseUrl}/actions?text="${name}"`,
    'and its owner can unblock it, once that is mended, at',
    `${baseUrl}/workers/${name}`,
  ].join('\n');
}

export function duplicateText(name: string, silentMs: number): string {
  const seconds = Math.floor(silentMs / 1000);
  return (
    `There is already a worker ${name} with another unique key, heard of ${seconds} seconds ago. ` +
    'Give each worker a name of its own.'
  );
}

export function machineLimitText(limit: number): string {
  return `Machine limit reached: ${limit} tasks are active at this address.`;
}

/** Lines of at most 70 characters, broken between words; a longer word is broken itself. */
export function wrap(message: string): string[] {
  return message.split('\n').flatMap((paragraph) => {
    const lines: string[] = [];
    let line = '';
    for (let word of paragraph.trim().split(/\s+/)) {
      if (line !== '' && line.length + 1 + word.length > columns) {
        lines.push(line);
        line = '';
      }
      for (; word.length > columns; word = word.slice(columns)) lines.push(word.slice(0, columns));
      line = line === '' ? word : `${line} ${word}`;
    }
    return [...lines, line];
  });
}
