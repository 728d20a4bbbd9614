// Reporter of `npm run mutate`: the first test that fails ends the run.

interface TestEvent {
  readonly type: string;
}

export default async function* endAtFailure(
  events: AsyncIterable<TestEvent>,
): AsyncGenerator<string> {
  for await (const { type } of events) {
    if (type === 'test:fail') process.exit(1);
    yield '';
  }
}
