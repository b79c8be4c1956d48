import { useCallback, useLayoutEffect, useRef } from 'preact/hooks';

/** Tells whether the component that asks is on the page still: an answer that comes later has nothing to change there, and leads nowhere. */
export function useShown(): () => boolean {
  const isShown = useRef(true);
  useLayoutEffect(() => {
    isShown.current = true;
    return () => {
      isShown.current = false;
    };
  }, []);
  return useCallback(() => isShown.current, []);
}
