import {
  configCommand,
  flag,
  makeProgram,
  number,
  runMain,
  runProgram,
  SettingsReader,
  text,
} from 'spillway-cli';

interface Settings {
  readonly data: string;
  readonly port: number;
}

const data = text('where everything is kept', {
  ...{ value: '<folder>', rule: 'a folder', pattern: /./, absent: 'data' },
});
const port = number('port to listen at', { absent: 1234, min: 0, max: 65_535 });
const reader = new SettingsReader<Settings>({ program: 'shop', rules: { data, port } });
// @ts-expect-error: the types travel with the package, so a rule of the wrong kind is found.
new SettingsReader<Settings>({ program: 'shop', rules: { data, port: flag('port', true) } });

const commands = [configCommand(reader, { examples: ['config'] })];
const program = makeProgram({ name: 'shop', about: 'Sells things.', help: '', commands });
await runMain((words) => runProgram(program, words));
