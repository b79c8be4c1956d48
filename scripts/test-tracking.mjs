// Preloaded into the process of each test file. To know whose test an error is that nobody caught, and who declares a test, node:test keeps
// a note of each promise until that is collected: a third of what a test takes that works with many. Here each carries whose it is itself,
// and node:test has a note of it only while it runs. Where its hook is not as it is known here, that stays in place.
import { createHook, executionAsyncId, executionAsyncResource } from 'node:async_hooks';
import { isMainThread } from 'node:worker_threads';

/** On each resource: the test in which it came to be; a test is its own. */
const TEST = Symbol('test');

const prototype = Object.getPrototypeOf(createHook({}));
const { enable } = prototype;

/** The callbacks of a hook, by name. */
const partsOf = (hook) =>
  Object.fromEntries(Object.getOwnPropertySymbols(hook).map((symbol) => [symbol.description, hook[symbol]]));

/** node:test has this one alone: it is told of beginnings and ends, and of nothing between. */
const isOfTests = ({ init, destroy, ...others }) =>
  typeof init === 'function' &&
  typeof destroy === 'function' &&
  Object.values(others).every((one) => one === undefined);

/** `note` and `forget` are what node:test would do where a resource begins and ends. Gives what ends it. */
function trackLightly(note, forget) {
  const noteOf = (id, resource) => {
    const test = resource[TEST];
    if (test !== undefined && test !== resource) note(id, 'Test', 0, test);
  };
  const hook = createHook({
    init(id, type, trigger, resource) {
      if (type === 'Test') {
        resource[TEST] = resource;
        note(id, type, trigger, resource);
        return;
      }
      const test = executionAsyncResource()[TEST];
      if (test !== undefined) resource[TEST] = test;
    },
    before: (id) => noteOf(id, executionAsyncResource()),
    after(id) {
      const resource = executionAsyncResource();
      if (resource[TEST] !== resource) forget(id);
    },
  });
  enable.call(hook);
  // Of a rejection that nobody handled it is told without a `before`.
  const tell = () => noteOf(executionAsyncId(), executionAsyncResource());
  process.prependListener('unhandledRejection', tell);
  return () => {
    hook.disable();
    process.off('unhandledRejection', tell);
  };
}

if (isMainThread)
  prototype.enable = function enableUnlessOfTests() {
    const { init, destroy, ...others } = partsOf(this);
    if (!isOfTests({ init, destroy, ...others })) return enable.call(this);
    prototype.enable = enable;
    const end = trackLightly(init, destroy);
    this.disable = () => {
      end();
      return this;
    };
    return this;
  };
