using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Operations;

namespace Statefold.Compiler.Determinism;

/// <summary>
/// Which code an operation runs: the members that it names, and those that the compiler calls for it without a name (operators,
/// conversions, enumerators, constructors of collection expressions). A kind of operation in neither table is refused, so that none is
/// let through for being new.
/// </summary>
internal static class Operations
{
    /// <summary>Kinds that run a member, or what can't be known; each is a case of <see cref="MembersOf"/> or of the analyzer.</summary>
    private static readonly string[] LookedAtNames =
    [
        "Invocation", "ObjectCreation", "PropertyReference", "FieldReference", "EventReference", "MethodReference", "Conversion", "Unary", "Binary", "CompoundAssignment", "Increment",
        "Decrement", "Range", "RecursivePattern", "ListPattern", "SlicePattern", "ImplicitIndexerReference", "With", "CollectionExpression", "Spread", "Loop", "DeconstructionAssignment",
        "Await", "Lock", "LocalFunction", "Using", "UsingDeclaration", "TupleBinary", "DynamicObjectCreation", "DynamicMemberReference", "DynamicInvocation", "DynamicIndexerAccess",
        "FunctionPointerInvocation", "AddressOf", "TypeOf", "None", "VariableDeclarator", "SimpleAssignment", "CoalesceAssignment", "EventAssignment", "Argument", "Return", "Interpolation",
    ];

    /// <summary>Kinds that only join others, which are looked at by themselves, or stand for a value that is there already.</summary>
    private static readonly string[] HarmlessNames =
    [
        // Statements and what they are made of.
        "Block", "VariableDeclarationGroup", "VariableDeclaration", "Switch", "SwitchCase", "CaseClause", "SwitchExpression", "SwitchExpressionArm", "Labeled", "Branch", "Empty", "YieldBreak",
        "YieldReturn", "Try", "CatchClause", "Throw", "ExpressionStatement", "MethodBody", "ConstructorBody", "FieldInitializer", "VariableInitializer", "PropertyInitializer",
        "ParameterInitializer", "ArrayInitializer", "Attribute",
        // Values.
        "Literal", "Utf8String", "LocalReference", "ParameterReference", "InstanceReference", "ArrayElementReference", "InlineArrayAccess", "Conditional", "Coalesce", "ConditionalAccess",
        "ConditionalAccessInstance", "Parenthesized", "Tuple", "DefaultValue", "SizeOf", "NameOf", "Discard", "DeclarationExpression", "OmittedArgument", "TranslatedQuery",
        // The code of a lambda is below it; an object without a name has a constructor of the compiler's. `new T()` is told where T is given.
        "AnonymousFunction", "DelegateCreation", "AnonymousObjectCreation", "TypeParameterObjectCreation", "ArrayCreation", "ObjectOrCollectionInitializer", "MemberInitializer",
        "CollectionElementInitializer", "CollectionExpressionElementsPlaceholder",
        // Texts with holes: what a handler is asked is an invocation below.
        "InterpolatedString", "InterpolatedStringText", "InterpolatedStringAddition", "InterpolatedStringHandlerCreation", "InterpolatedStringAppendLiteral",
        "InterpolatedStringAppendFormatted", "InterpolatedStringAppendInvalid", "InterpolatedStringHandlerArgumentPlaceholder",
        // Tests of types and values.
        "IsType", "IsPattern", "IsNull", "ConstantPattern", "DeclarationPattern", "DiscardPattern", "NegatedPattern", "BinaryPattern", "TypePattern", "RelationalPattern", "PropertySubpattern",
        // Of graphs of the flow of control, of Visual Basic, and of code that doesn't compile: none is in a tree of C# that does.
        "FlowCapture", "FlowCaptureReference", "FlowAnonymousFunction", "CaughtException", "StaticLocalInitializationSemaphore", "Invalid", "Stop", "End", "RaiseEvent", "ReDim", "ReDimClause",
    ];

    public static readonly IReadOnlySet<OperationKind> LookedAt = Kinds(LookedAtNames);

    public static readonly IReadOnlySet<OperationKind> Harmless = Kinds(HarmlessNames);

    /// <summary>In neither table: a later compiler's.</summary>
    public static bool IsUnheardOf(OperationKind kind) => !LookedAt.Contains(kind) && !Harmless.Contains(kind);

    /// <summary>The members that run when <paramref name="operation"/> does, itself and not what is below it.</summary>
    public static IEnumerable<ISymbol?> MembersOf(IOperation operation) => operation switch
    {
        IInvocationOperation { TargetMethod: var method } => [method],
        IObjectCreationOperation { Constructor: var constructor } => [constructor],
        // Properties, fields, events, and methods that are not called here.
        IMemberReferenceOperation { Member: var member } => [member],
        IConversionOperation { OperatorMethod: var method } => [method],
        IUnaryOperation { OperatorMethod: var method } => [method],
        IBinaryOperation { OperatorMethod: var method } => [method],
        ICompoundAssignmentOperation { OperatorMethod: var method } => [method],
        IIncrementOrDecrementOperation { OperatorMethod: var method } => [method],
        IRangeOperation { Method: var method } => [method],
        IRecursivePatternOperation { DeconstructSymbol: var method } => [method],
        IListPatternOperation { LengthSymbol: var length, IndexerSymbol: var indexer } => [length, indexer],
        ISlicePatternOperation { SliceSymbol: var slice } => [slice],
        IImplicitIndexerReferenceOperation { LengthSymbol: var length, IndexerSymbol: var indexer } => [length, indexer],
        IWithOperation { CloneMethod: var method } => [method],
        ICollectionExpressionOperation { ConstructMethod: var method } => [method],
        IForEachLoopOperation { SemanticModel: { } model, Syntax: CommonForEachStatementSyntax syntax } => EnumeratorOf(model.GetForEachStatementInfo(syntax)),
        IDeconstructionAssignmentOperation { SemanticModel: { } model, Syntax: AssignmentExpressionSyntax syntax } => MethodsOf(model.GetDeconstructionInfo(syntax)),
        _ => [],
    };

    /// <summary>What it takes apart is dynamic: an operator, a conversion or an enumerator that is looked for at run time.</summary>
    public static bool BindsLate(IOperation operation) => operation switch
    {
        IDynamicInvocationOperation or IDynamicMemberReferenceOperation or IDynamicObjectCreationOperation or IDynamicIndexerAccessOperation => true,
        IConversionOperation { Operand.Type.TypeKind: TypeKind.Dynamic, Type: { TypeKind: not TypeKind.Dynamic, SpecialType: not SpecialType.System_Object } } => true,
        IUnaryOperation or IBinaryOperation or ICompoundAssignmentOperation or IIncrementOrDecrementOperation or ITupleBinaryOperation or ISpreadOperation =>
            operation.ChildOperations.Any(child => child.Type is { TypeKind: TypeKind.Dynamic }),
        IForEachLoopOperation { Collection.Type.TypeKind: TypeKind.Dynamic } => true,
        IDeconstructionAssignmentOperation { Value.Type.TypeKind: TypeKind.Dynamic } => true,
        IUsingOperation { Resources.Type.TypeKind: TypeKind.Dynamic } => true,
        _ => false,
    };

    /// <summary>References that carry their type along (<c>__makeref</c>), and calls of native code through a pointer.</summary>
    public static bool IsNative(IOperation operation) => operation is IFunctionPointerInvocationOperation or IAddressOfOperation
        || (operation.Kind == OperationKind.None && operation.Syntax.Kind() is SyntaxKind.MakeRefExpression or SyntaxKind.RefTypeExpression or SyntaxKind.RefValueExpression or SyntaxKind.ArgListExpression);

    private static IEnumerable<ISymbol?> EnumeratorOf(ForEachStatementInfo info) => [info.GetEnumeratorMethod, info.MoveNextMethod, info.CurrentProperty, info.ElementConversion.MethodSymbol];

    private static IEnumerable<ISymbol?> MethodsOf(DeconstructionInfo info) => [info.Method, info.Conversion?.MethodSymbol, .. info.Nested.SelectMany(MethodsOf)];

    // By name: the analyzer is built against whatever compiler the SDK has.
    private static HashSet<OperationKind> Kinds(string[] names) =>
        [.. names.Select(name => Enum.TryParse<OperationKind>(name, out var kind) ? kind : (OperationKind?)null).OfType<OperationKind>()];
}
